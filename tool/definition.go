package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Disclaimer is printed wherever definitions are listed.
const Disclaimer = "Effect, replay and risks are information about a tool, not enforcement."

// Effect tells whether a tool can change anything.
type Effect string

// Replay tells what happens if the same call is made again.
type Replay string

// Risk names what a tool can reach with the user's authority.
type Risk string

const (
	ReadOnly Effect = "read_only"
	Mutating Effect = "mutating"

	Safe       Replay = "safe"       // nothing happens either time
	Idempotent Replay = "idempotent" // the second time changes nothing more
	Unsafe     Replay = "unsafe"     // it happens again

	RiskRead    Risk = "read"
	RiskWrite   Risk = "write"
	RiskProcess Risk = "process"
)

// A Definition is what a tool declares about itself.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, type object
	Effect      Effect          `json:"effect"`
	Replay      Replay          `json:"replay"`
	Risks       []Risk          `json:"risks"`
}

// Fingerprint is the lower-case hex SHA-256 over name, schema, effect, replay
// and risks, so that a recorded call can be tied to the contract it ran under.
// The schema counts by its value: white space and the order of names do not
// matter, nor does the order of the risks. The description does not count.
func (d Definition) Fingerprint() string {
	h := sha256.New()
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	field([]byte("belay tool 1"))
	field([]byte(d.Name))
	field(canonicalJSON(d.Schema))
	field([]byte(d.Effect))
	field([]byte(d.Replay))
	risks := make([]string, len(d.Risks))
	for i, r := range d.Risks {
		risks[i] = string(r)
	}
	slices.Sort(risks)
	for _, r := range slices.Compact(risks) {
		field([]byte(r))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonicalJSON has sorted names and no white space; numbers keep their
// spelling. What is no JSON is left as it is: Validate refuses it.
func canonicalJSON(raw []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v) // encoding/json sorts map keys
	if err != nil {
		return raw
	}
	return out
}

// Validate says what is wrong with a definition, or nil. A tool that only reads
// is safe to replay and holds neither the write nor the process risk; one that
// changes something is not safe.
func (d Definition) Validate() error {
	var schema struct {
		Type string `json:"type"`
	}
	switch {
	case d.Name == "" || strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "":
		return fmt.Errorf("tool name %q is not lower-case letters, digits and _", d.Name)
	case d.Description == "":
		return errors.New(d.Name + ": no description")
	case json.Unmarshal(d.Schema, &schema) != nil || schema.Type != "object":
		return errors.New(d.Name + ": the schema is no JSON Schema of type object")
	case d.Effect != ReadOnly && d.Effect != Mutating:
		return errors.New(d.Name + ": unknown effect")
	case d.Replay != Safe && d.Replay != Idempotent && d.Replay != Unsafe:
		return errors.New(d.Name + ": unknown replay")
	case d.Effect == ReadOnly && d.Replay != Safe:
		return errors.New(d.Name + ": a read_only tool is safe to replay")
	case d.Effect == Mutating && d.Replay == Safe:
		return errors.New(d.Name + ": a mutating tool is not safe to replay")
	}
	for _, r := range d.Risks {
		switch r {
		case RiskRead:
		case RiskWrite, RiskProcess:
			if d.Effect == ReadOnly {
				return errors.New(d.Name + ": a read_only tool has no risk " + string(r))
			}
		default:
			return errors.New(d.Name + ": unknown risk")
		}
	}
	return nil
}

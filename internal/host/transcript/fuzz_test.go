package transcript

import (
	"bytes"
	"testing"
)

// TR-01, TR-03: whatever happens to the bytes of a conversation, what is read is its
// beginning, and a shorter one is told, but for a file that ends with a line.
func FuzzDamageIsNoticed(f *testing.F) {
	var whole []byte
	var lines []string
	sum := uint32(0)
	for _, e := range []Entry{
		{Type: Begin, Version: version, ID: "aaaaaaaaaaaaaaaa"}, {Type: User, Text: "one"}, {Type: Assistant}, {Type: Call, CallID: "a"},
		{Type: Result, CallID: "a", Text: "two\n"}, Hide(Entry{Type: Notice, Text: "three"}), {Type: Turn},
	} {
		line, next, err := encode(e, sum)
		must(f, err)
		whole, sum = append(whole, line...), next
		lines = append(lines, string(line))
	}
	f.Add(uint16(10), uint16(0), []byte("x"))
	f.Add(uint16(300), uint16(9999), []byte{})
	f.Add(uint16(9999), uint16(0), []byte("\x00\x00"))
	f.Add(uint16(200), uint16(120), []byte{})
	f.Fuzz(func(t *testing.T, at, cut uint16, put []byte) {
		a := min(int(at), len(whole))
		b := min(a+int(cut), len(whole))
		raw := bytes.Join([][]byte{whole[:a], put, whole[b:]}, nil)
		n := 1
		before := uint32(0)
		_, before, _ = decode([]byte(lines[0]), 0)
		r, err := read(bytes.NewReader(raw), func(e Entry) error {
			line, next, err := encode(e, before)
			if n >= len(lines) || err != nil || string(line) != lines[n] {
				t.Fatalf("entry %d is not the one that was written: %+v", n, e)
			}
			n, before = n+1, next
			return nil
		})
		atLine := bytes.HasPrefix(whole, raw) && (len(raw) == 0 || len(raw) == len(whole) || raw[len(raw)-1] == '\n')
		if err == nil && n < len(lines) && r.torn == 0 && !atLine && !r.bare {
			t.Fatalf("a history of %d of %d lines is silently shorter", n, len(lines))
		}
		if err == nil && r.whole+r.torn != int64(len(raw)) {
			t.Fatalf("%d whole and %d torn of %d", r.whole, r.torn, len(raw))
		}
	})
}

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// A trusted project file: a file of its own for each root, named for it, so that two
// belays never write the same one.
type trusted struct {
	Root   string `json:"root"`
	SHA256 string `json:"sha256"`
}

func (p *program) trust() *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use: "trust", Short: "Let this root's project file set everything", Args: noArgs,
		Long: "Trust the project's file " + projectFile + " of this root. Until then it can only make belay\n" +
			"do less; what it names besides, such as programs that judge calls, is ignored. The trust holds\n" +
			"for this root and these bytes: a change of the file ends it. It says nothing about the\n" +
			"commands of an agent, which are not restricted either way.",
		RunE: func(c *cobra.Command, _ []string) error {
			if p.getenv("BELAY") != "" {
				// No boundary, since a command can take the variable away: it keeps an
				// agent from doing by habit what is the user's to do.
				return &exit{exitRefused, errors.New("trust is the user's to give: it is refused in what belay started (BELAY is set)")}
			}
			if remove {
				return p.distrust()
			}
			return p.giveTrust(configFlag(c))
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "take the trust back")
	return c
}

func (p *program) giveTrust(file string) error {
	before, err := p.configuration(file)
	switch {
	case err != nil:
		return err
	case before.project == "":
		return &exit{exitFailed, fmt.Errorf("there is no %s in %s", projectFile, inert(before.root))}
	}
	name := p.trustFile(before.root)
	if name == "" {
		return &exit{exitFailed, errors.New("there is no place to remember it: set HOME or BELAY_HOME")}
	}
	raw, err := json.Marshal(trusted{before.root, before.sum})
	if err == nil {
		err = writeState(name, append(raw, '\n'))
	}
	if err != nil {
		return &exit{exitFailed, errors.New("it could not be remembered: the state directory cannot be written to")}
	}
	fmt.Fprintf(p.out, "trusted: %s\nsha256:  %s\n", inert(before.project), before.sum)
	after, err := p.configuration(file)
	if err != nil {
		return err
	}
	if after.sum != before.sum {
		return &exit{exitFailed, errors.New("the file changed meanwhile: it is not trusted as it is now")}
	}
	for _, i := range before.ignored {
		fmt.Fprintf(p.out, "now holds: %s = %s\n", i.name, oneValue(shown(after.values[i.name].v)))
	}
	return nil
}

func (p *program) distrust() error {
	root := p.resolvedRoot()
	name := p.trustFile(root)
	if name == "" {
		return nil
	}
	err := os.Remove(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(p.out, "not trusted: %s\n", inert(root))
	case err != nil:
		return &exit{exitFailed, errors.New("the trust could not be taken back: the state directory cannot be written to")}
	default:
		fmt.Fprintf(p.out, "no longer trusted: %s\n", inert(root))
	}
	return nil
}

// isTrusted tells whether the user trusted these bytes in this root.
func (p *program) isTrusted(root, sum string) bool {
	name := p.trustFile(root)
	if name == "" {
		return false
	}
	raw, err := os.ReadFile(name)
	var t trusted
	return err == nil && json.Unmarshal(raw, &t) == nil && t.Root == root && t.SHA256 == sum
}

// trustFile is where the trust in a root is remembered, or "".
func (p *program) trustFile(root string) string {
	dir := p.stateDir()
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(dir, "trust", hex.EncodeToString(sum[:16])+".json")
}

// writeState writes a small file of the state directory, whole or not at all.
func writeState(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))+".*.tmp") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

//go:build !windows

package coding

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/tool"
)

// A place is a folder with a worktree W and a folder O beside it.
type place struct {
	*testing.T
	dir string
	s   *Suite // on W
}

// place runs a setup in W, with bash.
func newPlace(t *testing.T, setup string) *place {
	t.Helper()
	p := &place{T: t, dir: t.TempDir()}
	for _, d := range []string{"W", "O"} {
		if err := os.Mkdir(filepath.Join(p.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.bash(setup)
	p.s = p.suite("W")
	return p
}

func (p *place) suite(root string) *Suite {
	p.Helper()
	s, err := New(Config{Root: filepath.Join(p.dir, root), Shell: "/bin/sh"})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { s.Close() })
	return s
}

// bash runs a script in W and gives its output. It is the second judge.
func (p *place) bash(script string) string {
	p.Helper()
	c := exec.Command("bash", "-euc", script)
	c.Dir = filepath.Join(p.dir, "W")
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=a@b")
	out, err := c.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

func (p *place) says(script, want string) {
	p.Helper()
	if got := p.bash(script); got != want {
		p.Errorf("%s says %q, want %q", script, got, want)
	}
}

// code makes a call and wants it refused or failed with one of some codes.
func (p *place) code(s *Suite, name string, args map[string]any, want ...tool.Code) map[string]any {
	p.Helper()
	began := time.Now()
	text, data, e := do(p.T, s, name, args)
	if e == nil {
		p.Errorf("%s %v: no error: %s", name, args, text)
		return data
	}
	for _, w := range want {
		if e.Code == w {
			if d := time.Since(began); d > 20*time.Second { // against a hang
				p.Errorf("%s %v took %v", name, args, d)
			}
			return data
		}
	}
	p.Errorf("%s %v: %s, want %v", name, args, e.Message(), want)
	return data
}

func (p *place) read(s *Suite, path string) map[string]any {
	p.Helper()
	_, data, e := do(p.T, s, "read", map[string]any{"path": path})
	if e != nil {
		p.Fatalf("read %s: %s", path, e.Message())
	}
	return data
}

func (p *place) replace(s *Suite, path, content string) {
	p.Helper()
	sum := p.read(s, path)["sha256"]
	if _, _, e := do(p.T, s, "replace", map[string]any{"path": path, "content": content, "expected_sha256": sum}); e != nil {
		p.Errorf("replace %s: %s", path, e.Message())
	}
}

var anyDigest = strings.Repeat("ab", 32)

// The cases FI-01 to FI-37 of public reports, each as it was told and as the kind of
// fault that it is; FI-18 to FI-24 are in TestEdits. F1, F2, F3, F4, F5.
func TestFileCases(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, the second judge")
	}
	links := `mkdir -p sub ../W-evil; echo SECRET > ../O/secret; echo E > ../W-evil/f; ln -s ../O link; ln -s ../O/secret leak; ln -s ../O/newfile dang`
	cases := map[string]func(*testing.T){
		"FI-01": func(t *testing.T) {
			p := newPlace(t, links)
			for _, path := range []string{"leak", "link/secret", "sub/../leak", "../W-evil/f", filepath.Join(p.dir, "W-evil/f")} {
				data := p.code(p.s, "read", map[string]any{"path": path}, tool.OutsideRoot)
				if strings.Contains(fmt.Sprint(data), "SECRET") {
					t.Errorf("%s shows the secret", path)
				}
				p.code(p.s, "replace", map[string]any{"path": path, "content": "x", "expected_sha256": anyDigest}, tool.OutsideRoot)
			}
			p.says(`cat ../O/secret; readlink leak`, "SECRET\n../O/secret\n")
		},
		"FI-03": func(t *testing.T) {
			p := newPlace(t, links)
			for _, path := range []string{"link/new.txt", "dang", "link/a/b/new.txt"} {
				p.code(p.s, "replace", map[string]any{"path": path, "content": "x", "create": true, "mkdirs": true}, tool.OutsideRoot)
			}
			p.says(`ls -A ../O; ls -A`, "secret\ndang\nleak\nlink\nsub\n")
		},
		"FI-05": func(t *testing.T) {
			p := newPlace(t, `git init -q main; echo a > main/f; git -C main add f; git -C main commit -qm i; git -C main worktree add -q ../wt 2>/dev/null`)
			wt := p.suite("W/wt")
			abs := func(f string) string { return filepath.Join(p.dir, "W", f) }
			sum := p.read(wt, "f")["sha256"]
			for _, path := range []string{abs("main/f"), "../main/f"} {
				data := p.code(wt, "read", map[string]any{"path": path}, tool.OutsideRoot)
				if data["root"] != wt.Root() {
					t.Errorf("the root is not named: %v", data)
				}
				p.code(wt, "replace", map[string]any{"path": path, "content": "b", "expected_sha256": sum}, tool.OutsideRoot)
			}
			p.code(wt, "replace", map[string]any{"path": ".git", "content": "x", "expected_sha256": anyDigest}, tool.Protected)
			p.replace(wt, abs("wt/f"), "b")
			p.says(`cat main/f; git -C main status --porcelain; cat wt/f`, "a\nb")
		},
		"FI-06": func(t *testing.T) {
			p := newPlace(t, `mkdir -p real; echo hi > real/f; ln -s real alias`)
			for i, root := range []string{"W/alias", "W/real"} {
				s := p.suite(root)
				for _, path := range []string{"f", filepath.Join(p.dir, "W/real/f")} {
					p.read(s, path)
				}
				if i == 0 {
					p.read(s, filepath.Join(p.dir, "W/alias/f"))
				}
				p.replace(s, "f", fmt.Sprint("ho", i))
			}
			p.says(`cat real/f; readlink alias`, "ho1real\n")
		},
		"FI-08": func(t *testing.T) {
			p := newPlace(t, `echo SECRET > ../O/s; echo VICTIM > ../O/v; ln ../O/s h; for n in .f.tmp f.tmp f~ .f.swp tmp .tmp; do ln -s ../O/v $n; done; echo one > f`)
			p.replace(p.s, "h", "new\n")
			p.replace(p.s, "f", "two\n")
			p.says(`cat ../O/s ../O/v f; find . -type l | wc -l | tr -d ' '`, "SECRET\nVICTIM\ntwo\n6\n")
		},
		"FI-10": func(t *testing.T) {
			p := newPlace(t, ``)
			names := map[string]string{"v 1.txt": "space", "v\u00a01.txt": "nbsp", "caf\u00e9": "nfc", "cafe\u0301": "nfd", "-n": "dash", "a\nb": "nl", "~": "tilde", " lead": "lead", "trail ": "trail"}
			for name, text := range names {
				if err := os.WriteFile(filepath.Join(p.dir, "W", name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range names {
				if got := p.read(p.s, name)["content"]; got != text {
					t.Errorf("%q reads %q", name, got)
				}
				p.replace(p.s, name, text+"!")
			}
			for name, text := range names {
				if got, err := os.ReadFile(filepath.Join(p.dir, "W", name)); err != nil || string(got) != text+"!" {
					t.Errorf("%q is %q, %v", name, got, err)
				}
			}
			p.says(`ls -A | wc -l | tr -d ' '`, fmt.Sprintln(len(names)+1)) // one name has a line feed
			p.code(p.s, "read", map[string]any{"path": "v\u202f1.txt"}, tool.NotFound)
		},
		"FI-11": func(t *testing.T) {
			p := newPlace(t, `mkfifo ff; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("so")'; mkdir di; ln -s ff lf`)
			for _, path := range []string{"ff", "lf", "so", "di"} {
				p.code(p.s, "read", map[string]any{"path": path}, tool.NotRegular)
				p.code(p.s, "replace", map[string]any{"path": path, "content": "x", "expected_sha256": anyDigest}, tool.NotRegular)
			}
			p.says(`test -p ff && echo pipe`, "pipe\n")
		},
		"FI-13": func(t *testing.T) {
			p := newPlace(t, `truncate -s 200M big; ln -s /proc/self/status ps; : > empty`)
			_, data, _ := do(t, p.s, "read", map[string]any{"path": "big", "limit": 10})
			facts(t, "big", data, map[string]any{"size": 200 << 20, "next_offset": 10, "sha256": nil})
			_, data, _ = do(t, p.s, "read", map[string]any{"path": "big", "offset": -5})
			facts(t, "its end", data, map[string]any{"eof": true, "offset": 200<<20 - 5})
			facts(t, "empty", p.read(p.s, "empty"), map[string]any{"content": "", "size": 0, "eof": true, "sha256": sha256Hex("")})
			p.code(p.s, "read", map[string]any{"path": "ps"}, tool.OutsideRoot)
		},
		"FI-14": func(t *testing.T) {
			p := newPlace(t, `printf 'a\nb\nc' > n; printf 'a\nb\nc\n' > y; : > e; printf '\n' > o`)
			for path, want := range map[string]string{"n": "a\nb\nc", "y": "a\nb\nc\n", "e": "", "o": "\n"} {
				facts(t, path, p.read(p.s, path), map[string]any{"content": want, "eof": true})
			}
			for path, want := range map[string]string{"n": "c", "y": "c\n"} {
				_, data, _ := do(t, p.s, "read", map[string]any{"path": path, "line": 3})
				facts(t, path, data, map[string]any{"content": want, "first_line": 3, "eof": true})
			}
			_, data, _ := do(t, p.s, "read", map[string]any{"path": "y", "line": 4})
			facts(t, "beyond the last line", data, map[string]any{"content": "", "eof": true})
			p.code(p.s, "read", map[string]any{"path": "y", "limit": -1}, tool.InvalidArgument)
		},
		"FI-16": func(t *testing.T) {
			p := newPlace(t, `python3 - <<'E'
open('mix','wb').write(b''.join(b'%05d '%i + b'x'*(i*37%900) + (b'\r\n' if i%3 else b'\n') for i in range(3000))+b'no-newline-end')
open('one','w').write('Y'*1000000)
open('exact','w').write(('z'*63+'\n')*2000)
open('wide','w').write('\u20ac\U0001f600'*3000)
open('bytes','wb').write(bytes(range(256))*100)
E`)
			for _, file := range []string{"mix", "one", "exact", "wide", "bytes"} {
				want, err := os.ReadFile(filepath.Join(p.dir, "W", file))
				if err != nil {
					t.Fatal(err)
				}
				for _, limit := range []int{0, 1000, 4096} {
					var got []byte
					for at, pages := int64(0), 0; ; pages++ {
						args := map[string]any{"path": file, "offset": at}
						if limit > 0 {
							args["limit"] = limit
						}
						_, data, e := do(t, p.s, "read", args)
						if e != nil || pages > len(want)/max(limit, 1000)*2+2 {
							t.Fatalf("%s by %d: %d pages, %v", file, limit, pages, e)
						}
						content := []byte(data["content"].(string))
						if data["encoding"] == "base64" {
							content, _ = base64.StdEncoding.DecodeString(data["content"].(string))
						}
						got = append(got, content...)
						if data["eof"] == true {
							break
						}
						next := int64(data["next_offset"].(float64))
						if next <= at {
							t.Fatalf("%s by %d: page at %d does not advance", file, limit, at)
						}
						at = next
					}
					if !bytes.Equal(got, want) {
						t.Errorf("%s by %d: the pages are not the file", file, limit)
					}
				}
			}
		},
		"FI-27": func(t *testing.T) {
			p := newPlace(t, `for m in 755 644 600 640; do printf '#!/bin/sh\necho v1\n' > f$m; chmod $m f$m; done; echo v1 > ro; chmod 444 ro`)
			for _, f := range []string{"f755", "f644", "f600", "f640"} {
				p.replace(p.s, f, "#!/bin/sh\necho v2\n")
			}
			p.says(`stat -c '%n %a' f* 2>/dev/null || stat -f '%N %Lp' f*; ./f755`, "f600 600\nf640 640\nf644 644\nf755 755\nv2\n")
			p.code(p.s, "replace", map[string]any{"path": "ro", "content": "v2", "expected_sha256": p.read(p.s, "ro")["sha256"]}, tool.WriteFailed)
			p.says(`cat ro; test ! -w ro -o "$(id -u)" = 0 && ls -A`, "v1\nf600\nf640\nf644\nf755\nro\n")
		},
		"FI-29": func(t *testing.T) {
			p := newPlace(t, `mkdir d; echo v1 > d/real; ln -s d/real l; ln -s l l2; ln -s nowhere dang; ln -s loopb loopa; ln -s loopa loopb`)
			p.code(p.s, "replace", map[string]any{"path": "l2", "content": "v2", "expected_sha256": p.read(p.s, "l2")["sha256"]}, tool.NotRegular)
			p.code(p.s, "replace", map[string]any{"path": "dang", "content": "n", "create": true}, tool.NotRegular, tool.Exists)
			p.code(p.s, "read", map[string]any{"path": "loopa"}, tool.NotRegular)
			p.says(`readlink l l2 dang; cat d/real; ls -A`, "d/real\nl\nnowhere\nv1\nd\ndang\nl\nl2\nloopa\nloopb\n")
		},
		"FI-32": func(t *testing.T) {
			p := newPlace(t, `mkdir isdir; echo x > file`)
			p.code(p.s, "replace", map[string]any{"path": "isdir", "content": "x", "expected_sha256": anyDigest}, tool.NotRegular)
			data := p.code(p.s, "replace", map[string]any{"path": "file/child", "content": "x", "create": true}, tool.NotFound)
			facts(t, "a file on the way", data, map[string]any{"what": "not_directory"})
			data = p.code(p.s, "replace", map[string]any{"path": "nodir/x", "content": "x", "create": true}, tool.NotFound)
			facts(t, "a missing parent", data, map[string]any{"what": "missing"})
			p.says(`ls -A`, "file\nisdir\n")
		},
		"FI-33": func(t *testing.T) {
			p := newPlace(t, `echo v1 > f`)
			sum := p.read(p.s, "f")["sha256"]
			p.bash(`touch f; cp f g; mv g f; chmod 600 f`)
			if _, _, e := do(t, p.s, "replace", map[string]any{"path": "f", "content": "v2\n", "expected_sha256": sum}); e != nil {
				t.Error(e.Message())
			}
			p.says(`cat f`, "v2\n")
		},
		"FI-34": func(t *testing.T) {
			p := newPlace(t, `printf 'aaaa\n' > f; touch -t 202001010000 f`)
			sum := p.read(p.s, "f")["sha256"]
			p.bash(`printf 'bbbb\n' > n; touch -r f n; mv n f`)
			data := p.code(p.s, "replace", map[string]any{"path": "f", "content": "cccc\n", "expected_sha256": sum}, tool.Stale)
			facts(t, "stale", data, map[string]any{"current_sha256": sha256Hex("bbbb\n")})
			p.says(`cat f`, "bbbb\n")
		},
		"FI-37": func(t *testing.T) {
			p := newPlace(t, `echo mine > f`)
			sum := p.read(p.s, "f")["sha256"]
			for _, c := range []struct {
				args map[string]any
				want tool.Code
			}{
				{map[string]any{"path": "f", "content": "x"}, tool.InvalidArgument},
				{map[string]any{"path": "f", "content": "x", "create": true}, tool.Exists},
				{map[string]any{"path": "f", "content": "x", "expected_sha256": anyDigest}, tool.Stale},
				{map[string]any{"path": "f", "content": "x", "expected_sha256": ""}, tool.InvalidArgument},
				{map[string]any{"path": "gone", "content": "x", "expected_sha256": sum}, tool.NotFound},
			} {
				p.code(p.s, "replace", c.args, c.want)
			}
			p.says(`cat f; ls -A`, "mine\nf\n")
			for i := range 100 {
				var won sync.Map
				var both sync.WaitGroup
				for _, who := range []string{"a", "b"} {
					both.Go(func() {
						_, _, e := do(t, p.s, "replace", map[string]any{"path": fmt.Sprint("new", i), "content": who, "create": true})
						if e == nil {
							won.Store(who, true)
						} else if e.Code != tool.Exists {
							t.Errorf("round %d: %v", i, e)
						}
					})
				}
				both.Wait()
				got, err := os.ReadFile(filepath.Join(p.dir, "W", fmt.Sprint("new", i)))
				_, a := won.Load("a")
				_, b := won.Load("b")
				if err != nil || a == b || string(got) == "a" != a {
					t.Errorf("round %d: a won %v, b won %v, content %q, %v", i, a, b, got, err)
				}
			}
		},
	}
	for id, run := range cases {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// FI-30: a full disk leaves the old file whole and nothing beside it.
func TestFullDiskCase(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small file system needs root")
	}
	dir := t.TempDir()
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "t", dir)
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("no tmpfs: %s", out)
	}
	defer func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte("KEEP\n"), 0o644), os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 900<<10), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Root: dir, Shell: "/bin/sh"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, data, _ := do(t, s, "replace", map[string]any{"path": "f", "content": strings.Repeat("x", 500000), "expected_sha256": sha256Hex("KEEP\n")})
	facts(t, "full", data, map[string]any{"code": "write_failed", "kind": "failed", "reason": "no_space"})
	onDisk(t, s, "f", "KEEP\n")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

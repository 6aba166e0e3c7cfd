package worktree

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// F1, F8: the package's own source, for all systems, calls nothing that renames, opens, removes or changes a file of the tree by a path: what
// it does there it does through a held os.Root or a handle. Each exception is listed with the one place that may have it.
func TestNoPathCalls_F1_F8(t *testing.T) {
	t.Parallel()
	allowed := map[string]string{
		"os.OpenRoot":           "tree.go",          // once, for the root itself
		"filepath.EvalSymlinks": "tree.go",          // of the root, at start
		"os.Stat":               "dir_other.go",     // compares, opens nothing
		"os.MkdirAll":           "lock.go",          // the folder of lock files, outside the tree
		"os.OpenFile":           "lock.go",          // a lock file
		"os.UserCacheDir":       "lock.go",          //
		"unix.Renameat2":        "create_linux.go",  // both names in the held folder
		"unix.RenameatxNp":      "create_darwin.go", // the same
		"unix.Faccessat":        "system_unix.go",   // asks only, from the held folder
	}
	harmless := map[string]bool{
		"os.SameFile": true, "os.Getpid": true, "filepath.IsAbs": true, "filepath.Clean": true, "filepath.Join": true,
		"unix.Fstat": true, "unix.Fchown": true, "unix.Fchmod": true, "unix.Flock": true,
		"unix.Flistxattr": true, "unix.Fgetxattr": true, "unix.Fsetxattr": true, "unix.Fremovexattr": true,
		"windows.Handle": true, "windows.GetFileInformationByHandle": true, "windows.GetFileInformationByHandleEx": true,
		"windows.SetFileInformationByHandle": true, "windows.LockFileEx": true, "windows.UnlockFileEx": true,
		"syscall.ForkLock.RLock": true,
	}
	watched := map[string]bool{"os": true, "filepath": true, "syscall": true, "unix": true, "windows": true}
	entries, err := filepath.Glob("*.go")
	must(t, err)
	if len(entries) == 0 {
		t.Skip("the source is not beside the test binary")
	}
	files, used := 0, map[string]bool{}
	for _, e := range entries {
		if strings.HasSuffix(e, "_test.go") {
			continue
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, e, nil, parser.ParseComments)
		must(t, err)
		for _, im := range f.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			if path == "os/exec" || path == "io/ioutil" || path == "plugin" || path == "C" || im.Name != nil {
				t.Errorf("%s imports %s as %v", e, path, im.Name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Obj != nil || !watched[pkg.Name] || !isFunction(sel.Sel.Name) {
				return true
			}
			call := pkg.Name + "." + sel.Sel.Name
			used[call] = true
			if !harmless[call] && allowed[call] != e {
				t.Errorf("%s: %s", fset.Position(n.Pos()), call)
			}
			return true
		})
		for _, c := range f.Comments {
			for _, line := range c.List {
				if strings.HasPrefix(line.Text, "//go:linkname") || constraint.IsGoBuild(line.Text) && strings.Contains(line.Text, "ignore") {
					t.Errorf("%s: %s", e, line.Text)
				}
			}
		}
	}
	if files < 10 || !used["os.OpenRoot"] || !used["unix.Renameat2"] {
		t.Errorf("%d files, calls %v: the test does not see what it should", files, used)
	}
	for _, never := range []string{"os.Rename", "syscall.Rename", "unix.Rename", "unix.Renameat", "windows.Rename", "windows.MoveFile", "windows.MoveFileEx"} {
		if used[never] {
			t.Error(never)
		}
	}
}

// isFunction tells functions of the watched packages from their types, constants and errors, which reach no file.
func isFunction(name string) bool {
	switch name {
	case "File", "FileInfo", "FileMode", "Root", "ForkLock", "Handle", "Overlapped", "ByHandleFileInformation", "Filetime", "FileBasicInfo", "Separator":
		return false
	}
	return !strings.HasPrefix(name, "Err") && !strings.HasPrefix(name, "Stat_t") && name != strings.ToUpper(name) && name != "ModeSetuid"
}

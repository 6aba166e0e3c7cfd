package coding

import "testing"

// S4: what is omitted is counted in the unit of what was observed, also where most
// of it is no text.
func TestCountsOfBinaryOutputAddUp(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	_, data, e := do(t, s, "shell", map[string]any{"argv": []string{"/bin/sh", "-c", "head -c 300000 /dev/urandom"}})
	if e != nil {
		t.Fatal(e.Message())
	}
	observed, omitted := data["stdout_bytes"].(float64), data["stdout_omitted"].(float64)
	if observed != 300000 || omitted <= 0 || omitted >= observed {
		t.Errorf("%v bytes observed, %v omitted", observed, omitted)
	}
}

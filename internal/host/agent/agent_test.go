package agent

import "testing"

func TestSmoke(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{
		calls(call("read", m{"path": "f"}), call("shell", m{"argv": []string{"echo", "hi"}})),
		{"text": "done", "expect": []string{"hello", "hi"}},
	})
	h.write("f", "hello\n")
	o := h.does("go")
	h.is("text", o.Text, "done")
	h.is("transcript", h.line(), "user assistant read shell result result turn assistant turn")
	for _, e := range h.told() {
		b, err := e.MarshalJSON()
		t.Logf("%s %v", b, err)
	}
}

// D1: a background run wakes the model once with what is ready together.
func TestWake(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{
		calls(background("go", "echo one"), background("go", "echo two; exit 3")),
		{"text": "waiting"},
		{"text": "both", "expect": []string{"one", "two", "exit_code=3"}},
	})
	h.prompt("go")
	h.until("waiting", func(e Event) bool { return e.Type == Said && e.Text == "waiting" })
	h.write("go", "")
	o := h.settle()
	if o.Err != nil {
		t.Fatal(sentence(o.Err))
	}
	h.is("text", o.Text, "both")
	h.is("transcript", h.line(), "user assistant exec_command exec_command result result turn assistant turn notice notice assistant turn")
}

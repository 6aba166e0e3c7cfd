package stream

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", maxID) + `"`
	for line, want := range map[string]string{ // code, and the id that is answered
		`{"id":1,"type":"abort"}`:                                                     " 1",
		`{"id":"a","type":"prompt","text":"x"}`:                                       ` "a"`,
		` {"type":"prompt","text":"x","id":-1.5e3} `:                                  " -1.5e3",
		`{"id":1,"type":"hello"}`:                                                     " 1",
		`{"id":1,"type":"hello","ui":true}`:                                           " 1",
		`{"id":1,"type":"output","session_id":"s","cursor":-5,"max_output_tokens":3}`: " 1",
		`{"id":1,"type":"kill","session_id":"s","signal":"INT"}`:                      " 1",
		`{"id":1,"type":"messages","from":0,"limit":1}`:                               " 1",
		`{"id":"u","type":"ui_response","confirmed":"true"}`:                          ` "u"`,
		`{"id":"u","type":"ui_response"}`:                                             ` "u"`,

		``: "invalid_json ", `x`: "invalid_json ", `[1]`: "invalid_json ", `"a"`: "invalid_json ", `{"id":1`: "invalid_json ",
		`{"id":1,"type":"abort"}{}`:                                               "invalid_json ",
		`{"id":1,"type":"prompt","text":"` + "\xff" + `"}`:                        "invalid_json ",
		`{"id":1,"type":"prompt","text":"a` + "\n" + `"}`:                         "invalid_json ",
		`{"type":"abort"}`:                                                        "invalid_request ",
		`{"id":null,"type":"abort"}`:                                              "invalid_request ",
		`{"id":[1],"type":"abort"}`:                                               "invalid_request ",
		`{"id":true,"type":"abort"}`:                                              "invalid_request ",
		`{"id":"\ud800","type":"abort"}`:                                          "invalid_request ",
		`{"id":` + long + `,"type":"abort"}`:                                      "invalid_request ",
		`{"id":1,"id":1,"type":"abort"}`:                                          "invalid_request ",
		`{"id":1}`:                                                                "invalid_request 1",
		`{"id":1,"type":null}`:                                                    "invalid_request 1",
		`{"id":1,"type":"abort","type":"new"}`:                                    "invalid_request 1",
		`{"id":1,"type":"Abort"}`:                                                 "unknown_type 1",
		`{"id":1,"type":"no_such"}`:                                               "unknown_type 1",
		`{"id":1,"type":"abort","x":1}`:                                           "invalid_request 1",
		`{"id":1,"type":"prompt"}`:                                                "invalid_request 1",
		`{"id":1,"type":"prompt","text":""}`:                                      "invalid_request 1",
		`{"id":1,"type":"prompt","text":1}`:                                       "invalid_request 1",
		`{"id":1,"type":"prompt","Text":"x"}`:                                     "invalid_request 1",
		`{"id":1,"type":"prompt","text":"x","text":"y"}`:                          "invalid_request 1",
		`{"id":1,"type":"hello","ui":"true"}`:                                     "invalid_request 1",
		`{"id":1,"type":"hello","ui":1}`:                                          "invalid_request 1",
		`{"id":1,"type":"output"}`:                                                "invalid_request 1",
		`{"id":1,"type":"output","session_id":"s","cursor":1.5}`:                  "invalid_request 1",
		`{"id":1,"type":"output","session_id":"s","cursor":null}`:                 "invalid_request 1",
		`{"id":1,"type":"output","session_id":"s","cursor":99999999999999999999}`: "invalid_request 1",
		`{"id":1,"type":"messages","from":-1}`:                                    "invalid_request 1",
		`{"id":1,"type":"messages","limit":0}`:                                    "invalid_request 1",
		`{"id":1,"type":"kill","session_id":"s","signal":"HUP"}`:                  "invalid_request 1",
		`{"id":1,"type":"resume","conversation":""}`:                              "invalid_request 1",
		`{"id":"u","type":"ui_response","confirmed":false,"confirmed":true}`:      `invalid_request "u"`,
		`{"id":"u","type":"ui_response","confirmed":true,"also":1}`:               `invalid_request "u"`,
	} {
		r, f := parse([]byte(line))
		code := ""
		if f != nil {
			code = f.Code
			if len(f.Message) > 200 || strings.Contains(f.Message, "no_such") {
				t.Errorf("%s: its error says %q", line, f.Message)
			}
		}
		if got := code + " " + string(r.id); got != want {
			t.Errorf("%.80s: %s, want %s", line, got, want)
		}
	}
	r, f := parse([]byte("{\"id\":1,\"type\":\"prompt\",\"text\":\"a\u2028\\u2029b\"}")) // HO-07
	if f != nil || r.text != "a\u2028\u2029b" {
		t.Errorf("%q, %v", r.text, f)
	}
}

// No line ends the parser, and what it takes for a confirmation is JSON true and nothing else.
func FuzzOnlyTrueConfirms(f *testing.F) {
	f.Add([]byte(`{"id":"u","type":"ui_response","confirmed":true}`))
	f.Add([]byte(`{"id":"u","type":"ui_response","confirmed":"true"}`))
	f.Add([]byte(`{"id":"u","type":"ui_response","confirmed":false,"confirmed":true}`))
	f.Add([]byte(`{"id":1,"type":"prompt","text":"\ud800"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, fault := parse(line)
		if fault != nil || string(r.confirmed) != "true" {
			return
		}
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil || m["confirmed"] != true || m["type"] != "ui_response" {
			t.Fatalf("%q confirms", line)
		}
	})
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	in := "a\n\n \t\r\nb\r\n" + long + "\n" + long + "y\n" + long + long + "\nc\nend"
	l := lines{bufio.NewReaderSize(strings.NewReader(in), 64<<10)}
	for _, want := range []string{"a", "b", long, "!", "!", "c", "end"} {
		line, err := l.next()
		if want == "!" {
			if err != errLong {
				t.Fatalf("%v, want that it is too long", err)
			}
			continue
		}
		if err != nil || string(line) != want {
			t.Fatalf("%.20q, %v, want %.20q", line, err, want)
		}
	}
	if _, err := l.next(); err != io.EOF {
		t.Error(err)
	}
}

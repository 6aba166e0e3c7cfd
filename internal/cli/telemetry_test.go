package cli

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver is an endpoint on this machine that keeps what it got.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
	status []int // of the next answers; then 204
	hold   chan struct{}
}

func newReceiver(t *testing.T, status ...int) *receiver {
	r := &receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
		answer := http.StatusNoContent
		if len(r.status) > 0 {
			answer, r.status = r.status[0], r.status[1:]
		}
		hold := r.hold
		r.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-q.Context().Done():
			}
		}
		if answer/100 == 3 {
			w.Header().Set("Location", r.URL+"/elsewhere")
		}
		w.WriteHeader(answer)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.got) }

func (w *world) pingNow(t *testing.T) {
	t.Helper()
	select {
	case <-w.startPing(context.Background(), w.held(t)):
	case <-time.After(4 * pingTime):
		t.Fatal("the ping hangs")
	}
}

func (w *world) endpoint(t *testing.T, url string) {
	t.Helper()
	w.user(t, `{"telemetry": {"endpoint": "`+url+`"}}`)
}

// T1: the server sees exactly the allowed fields, and no header that says more.
func TestPingSaysFiveThings_T1(t *testing.T) {
	t.Parallel()
	r, w := newReceiver(t), newWorld(t)
	w.endpoint(t, r.URL+"/ping")
	w.vars["CANARY"], w.vars["HOME"] = "canary", "/canary"
	w.pingNow(t)
	if r.count() != 1 {
		t.Fatal(r.count())
	}
	q := r.got[0]
	var body map[string]string
	if err := json.Unmarshal([]byte(r.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"package": "belay", "version": version, "platform": runtime.GOOS, "runtime": runtime.Version(), "arch": runtime.GOARCH}
	if !maps.Equal(body, want) {
		t.Errorf("%v", body)
	}
	headers := slices.Sorted(maps.Keys(q.Header))
	if q.Method != "POST" || q.URL.String() != "/ping" || !slices.Equal(headers, []string{"Connection", "Content-Length", "Content-Type", "User-Agent"}) || q.Header.Get("User-Agent") != "belay" {
		t.Errorf("%s %s %v", q.Method, q.URL, q.Header)
	}
}

// T1: one attempt a start, and at most one that was accepted for a version: what was not
// accepted is tried again at the next start, and remembered only after a 2xx.
func TestOneAcceptedAVersion_T1(t *testing.T) {
	t.Parallel()
	r, w := newReceiver(t, 500, 404, 301, 202), newWorld(t)
	w.endpoint(t, r.URL)
	sent := filepath.Join(w.stateDir(), "telemetry", fileName(version)+".sent")
	for start := 1; start <= 6; start++ {
		w.pingNow(t)
		if want := min(start, 4); r.count() != want {
			t.Errorf("start %d: %d attempts, want %d", start, r.count(), want)
		}
		if _, err := os.Stat(sent); (err == nil) != (start >= 4) {
			t.Errorf("start %d: remembered %v", start, err == nil)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(sent)); len(entries) != 1 {
		t.Error("left behind:", entries)
	}
}

// T1: many starts at once send one.
func TestManyStarts_T1(t *testing.T) {
	t.Parallel()
	r, w := newReceiver(t), newWorld(t)
	w.endpoint(t, r.URL)
	c := w.held(t)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { <-w.startPing(context.Background(), c) })
	}
	wg.Wait()
	if r.count() != 1 {
		t.Error(r.count())
	}
}

// T1: it delays nothing, ends with the program, and is silent whatever comes of it.
func TestPingDelaysNothing_T1(t *testing.T) {
	t.Parallel()
	r, w := newReceiver(t), newWorld(t)
	r.hold = make(chan struct{})
	defer close(r.hold)
	w.endpoint(t, r.URL)
	ctx, cancel := context.WithCancel(context.Background())
	over := w.startPing(ctx, w.held(t)) // returns at once: the server holds the answer
	for end := time.Now().Add(pingTime); r.count() == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	select {
	case <-over:
		t.Error("it was over before the server answered")
	default:
	}
	cancel()
	select {
	case <-over:
	case <-time.After(pingTime / 2):
		t.Error("it did not end with the program")
	}
	if _, err := os.Stat(filepath.Join(w.stateDir(), "telemetry", "sending")); err == nil {
		t.Error("the claim was kept")
	}

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	w.endpoint(t, "http://"+address)
	w.pingNow(t)
	if w.err.Len()+w.out.Len() != 0 {
		t.Errorf("it said %q%q", &w.out, &w.err)
	}

	// a claim that a crash left is given up at the next start but one
	w.endpoint(t, r.URL)
	left := w.write(t, filepath.Join(w.stateDir(), "telemetry", "sending"), "")
	before := r.count()
	w.pingNow(t)
	if r.count() != before {
		t.Error("a fresh claim of another start was not respected")
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-2*claimTime)); err != nil {
		t.Fatal(err)
	}
	w.pingNow(t)
	if _, err := os.Stat(left); err == nil {
		t.Error("an old claim holds for ever")
	}
}

// T1: five seconds, then it is over.
func TestPingEndsByItself_T1(t *testing.T) {
	t.Parallel()
	if os.Getenv("BELAY_TEST_LONG") == "" && testing.Short() {
		t.Skip("takes five seconds")
	}
	r, w := newReceiver(t), newWorld(t)
	r.hold = make(chan struct{})
	defer close(r.hold)
	w.endpoint(t, r.URL)
	w.pingNow(t) // fails if that takes four times as long
	if r.count() != 1 {
		t.Error(r.count())
	}
}

// T1: without an endpoint, and without a place to remember it, nothing is sent.
func TestNoEndpointNoPing_T1(t *testing.T) {
	t.Parallel()
	r, w := newReceiver(t), newWorld(t)
	w.pingNow(t)
	if state := w.telemetryState(w.held(t)); state != "off: there is no endpoint" {
		t.Error(state)
	}
	if _, err := os.Stat(w.stateDir()); err == nil {
		t.Error("something was written")
	}
	w.endpoint(t, r.URL)
	c := w.held(t)
	w.vars["BELAY_HOME"] = ""
	<-w.startPing(context.Background(), c)
	w.vars["BELAY_HOME"] = w.write(t, filepath.Join(w.home, "file"), "")
	<-w.startPing(context.Background(), c)
	// a project that is not trusted cannot name one
	w2 := newWorld(t)
	w2.ofProject(t, `{"telemetry": {"endpoint": "`+r.URL+`"}}`)
	w2.pingNow(t)
	if r.count() != 0 {
		t.Error("sent", r.count())
	}
}

// T2: off wherever one says off, whatever else says on.
func TestAnyOffWins_T2(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	var offs [][2]string
	for _, name := range ciVariables {
		offs = append(offs, [2]string{name, "1"}, [2]string{name, "false"})
	}
	for _, v := range []string{"0", "false", "no", "off", "OFF", "No"} {
		offs = append(offs, [2]string{"BELAY_TELEMETRY", v})
	}
	offs = append(offs, [2]string{"BELAY_OFFLINE", "1"}, [2]string{"BELAY_OFFLINE", "yes"}, [2]string{"DO_NOT_TRACK", "1"})
	for _, off := range offs {
		w := newWorld(t)
		w.endpoint(t, r.URL)
		w.vars["BELAY_TELEMETRY"] = "1"
		w.vars[off[0]] = off[1]
		w.pingNow(t)
		if state := w.telemetryState(w.held(t)); r.count() != 0 || !strings.HasPrefix(state, "off: "+off[0]) {
			t.Fatalf("%v: sent %d, %s", off, r.count(), state)
		}
	}
	for _, where := range []string{"user", "project"} {
		w := newWorld(t)
		w.vars["BELAY_TELEMETRY"] = "1"
		w.endpoint(t, r.URL)
		if where == "user" {
			w.user(t, `{"telemetry": {"endpoint": "`+r.URL+`", "enabled": false}}`)
			w.ofProject(t, `{"telemetry": {"enabled": true}}`)
		} else {
			w.ofProject(t, `{"telemetry": {"enabled": false}}`)
		}
		w.pingNow(t)
		if r.count() != 0 || !strings.HasPrefix(w.telemetryState(w.held(t)), "off: by setting (") {
			t.Errorf("%s: sent %d, %s", where, r.count(), w.telemetryState(w.held(t)))
		}
	}
	if len(ciVariables) != 15 {
		t.Error(len(ciVariables), "variables of CI")
	}
	w := newWorld(t)
	w.endpoint(t, r.URL)
	w.vars["BELAY_OFFLINE"], w.vars["DO_NOT_TRACK"], w.vars["BELAY_TELEMETRY"] = "0", "0", "yes"
	if w.pingNow(t); r.count() != 1 {
		t.Error("nothing says off, and it was not sent")
	}
}

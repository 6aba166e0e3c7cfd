package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// Everything at once, in any order and cut anywhere: each id is answered exactly
// once unless it was cancelled, and then at most once; each line that is no
// message gets one error without an id. BELAY_TEST_LONG=1 does it for longer.
func TestChaos(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("BELAY_TEST_LONG") == "1" {
		rounds = 300
	}
	for range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func chaos(t *testing.T, dice *rand.Rand) {
	const steps = 400
	p := newPeer(t, newSuite()).hello()
	var script strings.Builder
	must, may, bad := map[string]string{}, map[string]bool{}, 0
	for i := range steps {
		id := fmt.Sprint(i)
		if dice.IntN(2) == 0 {
			id = `"` + id + `"`
		}
		line := ""
		switch dice.IntN(9) {
		case 0:
			line = `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
			must[id] = `"result":{}`
		case 1:
			line = `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`
			must[id] = `"tools":[`
		case 2:
			text := strings.Repeat("x", dice.IntN(3000)) + id[:1]
			line = `{"method":"tools/call","params":{"arguments":{"text":` + string(encodeJSON(text)) + `},"name":"write_stdin"},"id":` + id + `,"jsonrpc":"2.0"}`
			must[id] = string(encodeJSON(text))
		case 3:
			line = callOf(id, "nope", `{}`)
			must[id] = `unknown_tool`
		case 4:
			line = callOf(id, "replace", `{}`)
			must[id] = `"code":"uncertain"`
		case 5:
			line = callOf(id, "shell", `{}`) + "\n" + cancelOf(`"other"`) + "\n" + cancelOf(id)
		case 6: // a cancel that may come late
			line = callOf(id, "write_stdin", `{"text":"x"}`) + "\n" + cancelOf(id)
			may[id] = true
		case 7:
			line = []string{`{`, `[]`, "\xff", `5`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, strings.Repeat("[", 3000)}[dice.IntN(6)]
			bad++
		case 8:
			line = []string{``, "\t \r", `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`}[dice.IntN(4)]
		}
		script.WriteString(line + "\n")
	}
	go func() {
		rest := script.String()
		for rest != "" {
			n := min(len(rest), 1+dice.IntN(1<<dice.IntN(14)))
			if _, err := p.in.WriteString(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		p.in.Close()
	}()
	for _, line := range p.rest() {
		id := string(decode(t, line).ID)
		switch want, asked := must[id]; {
		case id == "null":
			bad--
		case may[id]:
			delete(may, id)
		case !asked || !strings.Contains(line, want):
			t.Errorf("not asked for, twice, or not the answer: %.200s", line)
		default:
			delete(must, id)
		}
	}
	if len(must) > 0 || bad != 0 {
		t.Errorf("not answered: %v, and %d bad lines", must, bad)
	}
	p.gone()
}

type panics struct{ *suite }

func (panics) Call(context.Context, coding.Caller, tool.Call) (tool.Result, error) {
	panic("secret-canary")
}

type foreign struct{ *suite }

func (foreign) Call(context.Context, coding.Caller, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("secret-canary")
}

// C3, C4: a fault of the suite itself is the outcome that is true of it, by the
// effect of the tool, and says nothing of its cause.
func TestFaultsOfTheSuite(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Suite{"panic": panics{newSuite()}, "foreign error": foreign{newSuite()}} {
		p := newPeer(t, s).hello()
		for tool, code := range map[string]string{"read": "read_failed", "shell": "uncertain"} {
			p.send(callOf("1", tool, `{}`))
			if line := p.line(); !strings.Contains(line, `"isError":true`) || !strings.Contains(line, `"code":"`+code+`"`) || strings.Contains(line, "canary") {
				t.Errorf("%s in %s: %s", name, tool, line)
			}
		}
	}
}

// C3: a panic below the middleware is one error.
func TestPanicInTheSDK(t *testing.T) {
	t.Parallel()
	f := &face{}
	h := f.served(func(context.Context, string, sdk.Request) (sdk.Result, error) { panic("secret-canary") })
	if r, err := h(context.Background(), "ping", nil); r != nil || err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v, %v", r, err)
	}
}

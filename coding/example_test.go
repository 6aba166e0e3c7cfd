package coding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// A command that fails is a result; a refusal is an error that says what the next call
// needs.
func Example() {
	suite, err := coding.New(coding.Config{Root: "."})
	if err != nil {
		log.Fatal(err)
	}
	defer suite.Close() // ends every process that it started

	call := func(name, args string) {
		result, err := suite.Call(context.Background(), coding.Caller{}, tool.Call{Name: name, Args: json.RawMessage(args)})
		var refused *tool.Error
		if errors.As(err, &refused) {
			fmt.Println(refused.Message())
			return
		}
		header, content, _ := strings.Cut(result.Text, "\n\n")
		status, _, _ := strings.Cut(header, " stdout_bytes")
		fmt.Printf("%s: %s", status, content)
	}
	call("shell", `{"argv":["sh","-c","echo hello; exit 3"]}`)
	call("read", `{"path":"../somewhere/else","limit":"all"}`)
	// Output:
	// status=exited exit_code=3: hello
	// invalid_argument: An argument is missing, unknown, of the wrong type or out of range.
	// argument=limit expects="a whole number, not negative (used from 1 to 262144)"
}

package proctool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/vt"

	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// Bounds of a screen. The emulator takes some 3 MB a second of ordinary output;
// output that is made to keep it busy (a character repeated a billion times, a
// scroll in each sequence) is stopped by the others.
const (
	screenBytes = 256 << 10   // of the end of the output
	screenLess  = 16 << 10    // of it, where all of that takes too long
	screenTime  = time.Second // for one try
	screenPiece = 512         // bytes between two looks at the clock
	screenParam = 1000        // largest number in a control sequence: no screen is larger
	maxCols     = 500         // of a terminal: each cell of the screen costs memory, and a scroll costs time
	maxRows     = 200
)

// A screen is what a terminal shows.
type screen struct {
	text     string // row by row, without the blanks at their ends and empty rows at the end
	row, col int    // of the cursor, from 0
}

var (
	errEmulator   = errors.New("the terminal emulator failed")
	errScreenTime = errors.New("the screen takes too long to build")
)

// render shows output on an emulated terminal of a size. The emulator is thrown
// away afterwards, and with it what it would answer to queries in the output: an
// answer would be input that nobody approved.
func render(ctx context.Context, output []byte, size proc.Size) (s screen, err error) {
	defer func() {
		// The output is anybody's: a fault of the emulator on it is no fault of belay.
		if recover() != nil {
			s, err = screen{}, errEmulator
		}
	}()
	e := vt.NewEmulator(size.Cols, size.Rows)
	e.SetScrollbackSize(0)
	drained := make(chan struct{})
	go func() { // its answers block it until they are read
		defer close(drained)
		_, _ = io.Copy(io.Discard, e)
	}()
	defer func() {
		// Not its Close: that races with a Read under way.
		if answers, ok := e.InputPipe().(io.Closer); ok {
			_ = answers.Close()
			<-drained
		}
	}()
	output = clampParams(output, size)
	for began := time.Now(); len(output) > 0; {
		n := min(screenPiece, len(output))
		if _, err := e.Write(output[:n]); err != nil {
			return screen{}, errEmulator
		}
		output = output[n:]
		if time.Since(began) > screenTime {
			return screen{}, errScreenTime
		}
		if ctx.Err() != nil {
			return screen{}, ctx.Err()
		}
	}

	var rows []string
	for y := range size.Rows {
		var row strings.Builder
		for x := 0; x < size.Cols; {
			c := e.CellAt(x, y)
			if c == nil || c.Content == "" {
				row.WriteByte(' ')
				x++
				continue
			}
			row.WriteString(c.Content)
			x += max(c.Width, 1)
		}
		rows = append(rows, strings.TrimRight(row.String(), " "))
	}
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	at := e.CursorPosition()
	return screen{text: string(termtext.Clean([]byte(strings.Join(rows, "\n")))), row: at.Y, col: at.X}, nil
}

// lastLines is what is shown where the emulator failed: what the last lines of the output
// showed last.
func lastLines(output []byte, size proc.Size) screen {
	lines := strings.Split(strings.TrimRight(string(termtext.Clean(output)), "\n"), "\n")
	lines = lines[max(0, len(lines)-size.Rows):]
	return screen{text: strings.Join(lines, "\n"), row: len(lines) - 1}
}

// clampParams is output with the numbers in its control sequences held to
// screenParam, so that no sequence keeps the emulator busy for long, and margins held
// to the screen, as a terminal does. Controls inside a sequence, which a terminal
// executes or drops there, are dropped: they would part a number from its introducer.
func clampParams(output []byte, size proc.Size) []byte {
	const (
		ground = iota
		escape // after ESC
		control
	)
	out := make([]byte, 0, len(output))
	state, number, private := ground, -1, false
	begun := 0 // where the numbers of the sequence are in out
	// end writes the number that was read, and goes on in another state.
	end := func(next int) {
		if number >= 0 {
			if !private {
				number = min(number, screenParam)
			}
			out = strconv.AppendInt(out, int64(number), 10)
			number = -1
		}
		state = next
	}
	for i := 0; i < len(output); i++ {
		c := output[i]
		c1 := c == 0xc2 && i+1 < len(output) && output[i+1] == 0x9b // U+009B is ESC [
		switch {
		case c == 0x1b:
			end(escape)
			out = append(out, c)
		case c1:
			end(control)
			private = false
			out = append(out, c, 0x9b)
			begun = len(out)
			i++
		case state == ground:
			out = append(out, c)
		case c == 0x18 || c == 0x1a: // a sequence is cancelled
			end(ground)
			out = append(out, c)
		case c < 0x20 || c == 0x7f:
		case state == escape && c == '[':
			out = append(out, c)
			state, private, begun = control, false, len(out)
		case state == escape:
			out = append(out, c)
			state = ground
		case c >= '0' && c <= '9':
			number = min(max(number, 0)*10+int(c-'0'), maxMode)
		case c < 0x40: // what separates numbers, or marks the sequence
			end(control)
			private = private || c == '?'
			out = append(out, c)
		default: // the final character
			end(ground)
			switch {
			case private:
			case c == 'r': // the rows that scroll
				out = clampMargins(out, begun, size.Rows)
			case c == 's': // the columns
				out = clampMargins(out, begun, size.Cols)
			}
			out = append(out, c)
		}
	}
	end(ground)
	return out
}

// clampMargins holds the numbers from a place in a sequence on to a size.
func clampMargins(out []byte, from, size int) []byte {
	margins := strings.Split(string(out[from:]), ";")
	for i, m := range margins {
		if n, err := strconv.Atoi(m); err == nil && n > size {
			margins[i] = strconv.Itoa(size)
		}
	}
	return append(out[:from], strings.Join(margins, ";")...)
}

// maxMode is the largest number of a private mode (CSI ? 2026 h and the like), which
// is a name and no count.
const maxMode = 9999

type screenPlan struct {
	noPlan
	job    *jobs.Job
	budget int
}

// screenData is the result of view: screen as data; its names are the contract's.
type screenData struct {
	SessionID    string     `json:"session_id"`
	Status       jobs.State `json:"status"`
	ExitCode     *int       `json:"exit_code"`
	Output       string     `json:"output"`
	OmittedBytes int64      `json:"omitted_bytes"`
	Rows         int        `json:"rows"`
	Cols         int        `json:"cols"`
	CursorRow    int        `json:"cursor_row"`
	CursorCol    int        `json:"cursor_col"`
	Exact        bool       `json:"exact"`
}

func (p *screenPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	state := p.job.Status()
	size, since := p.job.Size()
	output, from := p.job.Last(screenBytes)
	shown, err := render(ctx, output, size)
	if err == errScreenTime && len(output) > screenLess {
		cut := len(output) - screenLess
		cut += capture.StartOfPart(output[cut:])
		output, from = output[cut:], from+int64(cut)
		shown, err = render(ctx, output, size)
	}
	failed := err == errEmulator
	if failed {
		shown, err = lastLines(output, size), nil
	}
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, tool.Stopped(ctx.Err())
	case err == errScreenTime:
		return tool.Result{}, tool.NewError(tool.Limit, tool.Fact{Name: "what", Value: "milliseconds to build the screen"},
			tool.Fact{Name: "limit", Value: screenTime.Milliseconds()}, tool.Fact{Name: "actual", Value: nil})
	case err != nil:
		return tool.Result{}, tool.NewError(tool.ReadFailed, tool.Fact{Name: "reason", Value: "io"})
	}
	d := screenData{
		SessionID: p.job.ID(), Status: state.State, Rows: size.Rows, Cols: size.Cols,
		CursorRow: shown.row, CursorCol: shown.col,
		// All that was printed since the terminal had this size, from its beginning or
		// a full reset on, is behind what is shown.
		Exact: since == 0 && from == 0,
	}
	if reset := lastReset(output); reset >= 0 && from+int64(reset) >= since {
		d.Exact = true
	}
	d.Exact = d.Exact && !failed
	var h tool.Header
	h.Fact("session", d.SessionID)
	h.Fact("status", d.Status)
	if state.State != jobs.Running {
		var signal *string
		signal, d.ExitCode = exitFacts(state.Signal, state.Code)
		exitHeader(&h, d.ExitCode, signal)
	}
	h.Fact("rows", d.Rows)
	h.Fact("cols", d.Cols)
	h.Fact("cursor_row", d.CursorRow)
	h.Fact("cursor_col", d.CursorCol)
	h.Fact("exact", d.Exact)
	d.Output = shown.text
	if over := len(d.Output) - contentRoom(p.budget, nil, nil, 0); over > 0 { // the lower rows say more
		if line := strings.IndexByte(d.Output[over:], '\n'); line >= 0 {
			over += line + 1
		} else {
			over += capture.StartOfPart([]byte(d.Output[over:]))
		}
		d.OmittedBytes, d.Output = int64(over), d.Output[over:]
		h.Fact("omitted_bytes", d.OmittedBytes)
	}
	return tool.Result{Text: h.Text(d.Output), Data: d}, nil
}

// lastReset is where the terminal was last told to forget everything, or -1.
func lastReset(output []byte) int { return bytes.LastIndex(output, []byte("\x1bc")) }

package stream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds one line of a client, in bytes without its end. A prompt with a large file
// in it fits.
const maxLine = 8 << 20

// errLong says that a line was too long. The next one can be read.
var errLong = errors.New("stream: a line is too long")

// lines cuts a stream at line feeds and nothing else.
type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) lines { return lines{bufio.NewReaderSize(r, 64<<10)} }

// next is the next line that is not blank, in memory of its own. What the stream ends
// with counts as a line. errLong is not the end; any other error is.
func (l lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 || err != nil {
			return line, err
		}
	}
}

func (l lines) line() (line []byte, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(bytes.TrimRight(part, "\r\n")) > maxLine {
			for err == bufio.ErrBufferFull {
				_, err = l.r.ReadSlice('\n')
			}
			return nil, errLong
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

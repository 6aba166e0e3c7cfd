package cli

import (
	"errors"
	"io"

	"golang.org/x/sys/windows"
)

// readerLeft tells whether a write failed because nobody reads any more.
func readerLeft(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, io.ErrClosedPipe)
}

// watchReader sees nothing: Windows tells the writer of a pipe with its next write.
func watchReader(any) (gone <-chan struct{}, stop func()) { return nil, func() {} }

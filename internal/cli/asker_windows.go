package cli

import (
	"context"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	readConsoleInput        = windows.NewLazySystemDLL("kernel32.dll").NewProc("ReadConsoleInputW")
	flushConsoleInputBuffer = windows.NewLazySystemDLL("kernel32.dll").NewProc("FlushConsoleInputBuffer")
)

// inputRecord is INPUT_RECORD with a KEY_EVENT_RECORD in it.
type inputRecord struct {
	eventType uint16
	_         uint16
	keyDown   int32
	repeat    uint16
	keyCode   uint16
	scanCode  uint16
	char      uint16
	modifiers uint32
}

const keyEvent = 1

// conio is the console of the program while a question is on it.
type conio struct {
	in, out windows.Handle
	was     uint32
	wake    windows.Handle // an event: it ends a wait

	high  uint16 // the first half of a character of two
	bytes []byte // of a character, that are not given yet
}

// The console marks nothing: each line of what is pasted is one that was typed.
const markPastes, unmarkPastes = "", ""

// openConsole takes the console for a question: Ctrl-C ends belay as ever.
func openConsole() (console, error) { return openConsoleAs(windows.ENABLE_PROCESSED_INPUT) }

// openKeyboard takes the console for the interactive form: Ctrl-C is a key like any other.
func openKeyboard() (console, error) { return openConsoleAs(0) }

func openConsoleAs(mode uint32) (console, error) {
	open := func(name string) (windows.Handle, error) {
		p, err := windows.UTF16PtrFromString(name)
		if err != nil {
			return 0, err
		}
		return windows.CreateFile(p, windows.GENERIC_READ|windows.GENERIC_WRITE,
			windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
	}
	c := &conio{}
	var err error
	if c.in, err = open("CONIN$"); err != nil {
		return nil, err
	}
	if c.out, err = open("CONOUT$"); err != nil {
		windows.CloseHandle(c.in)
		return nil, err
	}
	if c.wake, err = windows.CreateEvent(nil, 0, 0, nil); err != nil {
		windows.CloseHandle(c.in)
		windows.CloseHandle(c.out)
		return nil, err
	}
	if err = windows.GetConsoleMode(c.in, &c.was); err == nil {
		err = windows.SetConsoleMode(c.in, mode) // keys one by one, without an echo
	}
	if err == nil {
		err = c.discard()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conio) size() (cols, rows int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(c.out, &info) != nil {
		return 80, 24
	}
	return max(int(info.Window.Right-info.Window.Left)+1, 20), max(int(info.Window.Bottom-info.Window.Top)+1, 8)
}

func (c *conio) write(s string) error {
	text, err := windows.UTF16FromString(s)
	if err != nil {
		return err
	}
	text = text[:len(text)-1]
	for len(text) > 0 {
		var n uint32
		// The console takes 64 KiB at once at most.
		if err := windows.WriteConsole(c.out, &text[0], uint32(min(len(text), 8192)), &n, nil); err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the console takes nothing")
		}
		text = text[n:]
	}
	return nil
}

func (c *conio) discard() error {
	c.high, c.bytes = 0, nil
	if r, _, err := flushConsoleInputBuffer.Call(uintptr(c.in)); r == 0 {
		return err
	}
	return nil
}

func (c *conio) key(ctx context.Context) (byte, error) {
	defer onEnd(ctx, func() { _ = windows.SetEvent(c.wake) })()
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if len(c.bytes) > 0 {
			b := c.bytes[0]
			c.bytes = c.bytes[1:]
			return b, nil
		}
		which, err := windows.WaitForMultipleObjects([]windows.Handle{c.wake, c.in}, false, windows.INFINITE)
		if err != nil {
			return 0, err
		}
		if which == windows.WAIT_OBJECT_0 {
			continue // it was the event
		}
		var record inputRecord
		var n uint32
		if r, _, err := readConsoleInput.Call(uintptr(c.in), uintptr(unsafe.Pointer(&record)), 1, uintptr(unsafe.Pointer(&n))); r == 0 {
			return 0, err
		}
		if n == 0 || record.eventType != keyEvent || record.keyDown == 0 || record.char == 0 {
			continue // a mouse, a size, a key that is no character
		}
		switch r := rune(record.char); {
		case r < utf8.RuneSelf:
			return byte(r), nil
		case c.high != 0:
			c.bytes = utf8.AppendRune(nil, utf16.DecodeRune(rune(c.high), r))
			c.high = 0
		case utf16.IsSurrogate(r):
			c.high = record.char
		default:
			c.bytes = utf8.AppendRune(nil, r)
		}
	}
}

func (c *conio) close() {
	_ = c.discard()
	if c.was != 0 {
		_ = windows.SetConsoleMode(c.in, c.was)
	}
	windows.CloseHandle(c.in)
	windows.CloseHandle(c.out)
	windows.CloseHandle(c.wake)
}

package termtext

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// P5, SH-29, SH-31: malformed bytes become U+FFFD, one for each maximal subpart.
// The first rows are the tables 3-8 to 3-11 of the Unicode Standard.
func TestP5_DecoderReplacesMaximalSubparts(t *testing.T) {
	t.Parallel()
	const f = "\ufffd"
	for _, c := range []struct{ in, want string }{
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A", f + f + f + f + f + f + f + f + "A"},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xafA", f + f + f + f + f + f + f + f + "A"},
		{"\xf4\x91\x92\x93\xffA\x80\xbfB", f + f + f + f + f + "A" + f + f + "B"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", f + f + f + f + "A"},
		{"ok\xe2\x82", "ok" + f},
		{"A\xe2\x89\xa4B\n", "A\u2264B\n"},
		{"\xf0\x9f\x98\x80", "\U0001f600"},
		{"\xf0\x9f\x98", f},
		{"\xf0\x9f\x98\xf0\x9f\x98\x80", f + "\U0001f600"},
		{"caf\xe9 note", "caf" + f + " note"},
		{"\xe2\x1b[31mX", f + "\x1b[31mX"},
		{"", ""},
		{"\ufffd", f},
	} {
		for _, size := range []int{1, 2, 3, len(c.in) + 1} {
			var d Decoder
			var got []byte
			for part := range slices.Chunk([]byte(c.in), size) {
				got = d.Append(got, part)
			}
			got = d.Flush(got)
			if string(got) != c.want {
				t.Errorf("%q in pieces of %d: got %q, want %q", c.in, size, got, c.want)
			}
		}
	}
}

// SH-29: a big text in a wide script comes through whole at every split.
func TestSH29_SplitsDamageNothing(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("\u4f60"), 50_000)
	for _, size := range []int{1, 7, 4096, 65536} {
		var d Decoder
		var got []byte
		scratch := make([]byte, 0, 3*size+3)
		for part := range slices.Chunk(text, size) {
			got = append(got, d.Decode(scratch, part)...)
		}
		if got = d.Flush(got); !bytes.Equal(got, text) {
			t.Fatalf("pieces of %d: text damaged", size)
		}
	}
}

func TestDecodeCopiesNothingThatIsValid(t *testing.T) { // counts allocations: not parallel
	var d Decoder
	src := []byte("plain \u4f60 text\xe4\xbd")
	got := d.Decode(nil, src)
	if &got[0] != &src[0] || string(got) != "plain \u4f60 text" {
		t.Fatalf("got %q, own memory %v", got, &got[0] != &src[0])
	}
	if got = d.Decode(nil, []byte("\xa0!")); string(got) != "\u4f60!" {
		t.Fatalf("got %q", got)
	}
	scratch := make([]byte, 0, 64)
	if got = d.Decode(scratch, []byte("a\xffb")); &got[0] != &scratch[:1][0] {
		t.Fatal("scratch was not used")
	}
	if n := testing.AllocsPerRun(100, func() { d.Decode(scratch, src[:13]) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// naiveDecode is the standard's definition, written without a thought of speed.
func naiveDecode(b []byte) []byte {
	var out []byte
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		n := 1
		for n < len(b) && startsCharacter(b[:n+1]) {
			n++
		}
		out = append(out, "\ufffd"...)
		b = b[n:]
	}
	return out
}

// startsCharacter reports whether some valid character begins with b.
func startsCharacter(b []byte) bool {
	for _, c := range [][]byte{{0x80, 0x80}, {0xbf, 0xbf}} {
		full := append(slices.Clone(b), c...)
		for n := len(b) + 1; n <= min(len(full), 4); n++ {
			if r, size := utf8.DecodeRune(full[:n]); r != utf8.RuneError && size == n {
				return true
			}
		}
	}
	return false
}

// P5: any split of any bytes gives the same text, and it is what the standard's
// definition gives.
func FuzzDecoderSplitInvariance(f *testing.F) {
	for _, s := range []string{"", "plain", "\xe2\x82\xac", "\xf0\x9f\x98", "\xed\xa0\x80\xed\xbf\xbf\xed\xafA", "a\xc0\xaf\xe0\x80\xbf\xf0\x81\x82"} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, src []byte, seed uint64) {
		want := naiveDecode(src)
		var d Decoder
		if got := d.Flush(d.Append(nil, src)); !bytes.Equal(got, want) {
			t.Fatalf("whole: got %q, want %q", got, want)
		}
		var viaDecode Decoder
		var got, got2 []byte
		scratch := make([]byte, 0, 3*len(src)+3)
		for _, part := range split(src, seed) {
			got = d.Append(got, part)
			before := slices.Clone(part)
			got2 = append(got2, viaDecode.Decode(scratch, part)...)
			if !bytes.Equal(before, part) {
				t.Fatal("Decode changed its source")
			}
		}
		if got = d.Flush(got); !bytes.Equal(got, want) {
			t.Fatalf("split: got %q, want %q", got, want)
		}
		if got2 = viaDecode.Flush(got2); !bytes.Equal(got2, want) {
			t.Fatalf("Decode: got %q, want %q", got2, want)
		}
	})
}

// split cuts b into pieces, some of them empty.
func split(b []byte, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	var parts [][]byte
	for len(b) > 0 {
		n := rng.IntN(min(len(b), 9) + 1)
		if rng.IntN(16) == 0 {
			n = rng.IntN(len(b) + 1)
		}
		parts = append(parts, b[:n])
		b = b[n:]
	}
	return parts
}

func BenchmarkDecoder(b *testing.B) {
	for name, src := range map[string][]byte{
		"ascii":   bytes.Repeat([]byte("0123456789abcdef0123456789abcde\n"), 2048),
		"chinese": bytes.Repeat([]byte("\u4f60\u597d"), 11000),
		"latin1":  bytes.Repeat([]byte("caf\xe9 au lait "), 5000),
	} {
		b.Run(name, func(b *testing.B) {
			var d Decoder
			scratch := make([]byte, 0, 3*len(src)+3)
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				d.Decode(scratch, src)
			}
		})
	}
}

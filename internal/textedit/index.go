package textedit

import "bytes"

// longText is from where on a text is looked for by its hash. The library compares it where its
// first bytes are, which for a long one in content that repeats itself is nearly everywhere.
const longText = 2 << 10

// index is bytes.Index in time linear in the content, whatever is looked for, by the algorithm of
// Rabin and Karp. (Content that is made for it can have other texts with the same hash: then it is as
// slow as the library.)
func index(content, text []byte) int {
	n := len(text)
	if n < longText || n > len(content) {
		return bytes.Index(content, text)
	}
	const base = 0x9e3779b97f4a7c15 // odd, from the golden ratio; all is modulo 2^64
	want, have, oldest := uint64(0), uint64(0), uint64(1)
	for i, c := range text {
		want = want*base + uint64(c)
		have = have*base + uint64(content[i])
		oldest *= base
	}
	for at := 0; ; at++ {
		if have == want && bytes.Equal(content[at:at+n], text) {
			return at
		}
		if at+n == len(content) {
			return -1
		}
		have = have*base + uint64(content[at+n]) - oldest*uint64(content[at])
	}
}

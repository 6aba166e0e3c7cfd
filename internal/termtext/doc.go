// Package termtext turns what a program printed into text that is safe to read.
//
// Three readers need three forms of the same bytes:
//
//   - [Decoder] makes any byte stream valid UTF-8, however the stream was split.
//   - [Cleaner] makes decoded output inert text for a model: terminal sequences
//     are removed, what was overprinted within a line is resolved to what the
//     line last showed, invisible characters become visible.
//   - [Escape] and [Preview] show a text to a person, whole, so that nothing in
//     it can move a cursor, change a direction or hide.
//
// It promises that no result holds a control character other than line feed
// and tab (Escape and Preview: none at all), whatever the input and wherever it
// was split. It does not promise that text is harmless to a model: words stay
// words. It is no terminal: rows are not modelled (see [Cleaner]).
//
// Nothing here does I/O, starts a goroutine or keeps state outside its values.
// One Decoder or Cleaner belongs to one stream and one goroutine at a time;
// functions may be called from anywhere.
package termtext

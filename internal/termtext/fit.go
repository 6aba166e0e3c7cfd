package termtext

import "unicode/utf8"

// Fit renders a text of at most limit bytes. Cleaning can make a text longer
// than its source, and notes stand beside it, so the source is given a budget
// that shrinks until the result fits: what render leaves out stays exact.
// Render is called until then, a few times at most, with 4 bytes in the end.
func Fit(limit int, render func(budget int) string) string {
	for budget := limit; ; {
		text := render(budget)
		if len(text) <= limit || budget <= utf8.UTFMax {
			return text
		}
		budget = max(utf8.UTFMax, min(budget*limit/len(text), budget-budget/8-1))
	}
}

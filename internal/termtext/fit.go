package termtext

import "unicode/utf8"

// Fit renders a text of at most limit bytes from a source of which most bytes
// are there. Cleaning can make a text longer than its source, and notes stand
// beside it, so the source is given a budget that shrinks until the result fits:
// what render leaves out stays exact. Cleaning can also leave little of much, as
// of the frames of a progress bar: then the budget grows, so that what is shown
// is worth the room. Render is called a few times, last with the budget that
// counts, which is 4 bytes where nothing fits.
func Fit(limit, most int, render func(budget int) string) string {
	budget := limit
	text := render(budget)
	for len(text) > limit && budget > utf8.UTFMax {
		budget = max(utf8.UTFMax, min(budget*limit/len(text), budget-budget/8-1))
		text = render(budget)
	}
	for len(text) <= limit/2 && budget < most {
		more := min(2*max(budget, 1), most)
		next := render(more)
		if len(next) > limit {
			return render(budget)
		}
		text, budget = next, more
	}
	return text
}

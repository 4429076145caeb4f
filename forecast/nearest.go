package forecast

import "strings"

// Nearest returns the candidate with the smallest edit distance to name, upper and lower case alike, "" when none is
// close: what somebody may have meant who wrote a column or a key that there is not.
func Nearest(name string, candidates []string) string {
	best, near := len(name)/2+1, ""
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d < best {
			best, near = d, c
		}
	}
	return near
}

// editDistance counts the single-byte insertions, deletions and replacements between a and b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

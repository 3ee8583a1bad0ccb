// Package typo tells how far a word is from another one, for errors that ask "did you mean …?".
package typo

// longest is how much of a word is compared: nobody means a longer one.
const longest = 100

// Distance counts the letters added, removed or changed between two words; of a very long one only the
// beginning is compared.
func Distance(a, b string) int {
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal, row[j+1] = row[j+1], min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Nearest is the word among known with the least distance to word, the first in the alphabet where there
// are several; empty when none is known.
func Nearest(word string, known []string) string {
	best, least := "", 0
	for _, k := range known {
		if d := Distance(word, k); best == "" || d < least || d == least && k < best {
			best, least = k, d
		}
	}
	return best
}

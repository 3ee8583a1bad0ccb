// Package total adds up receipts.
package total

// Cents is the sum of all prices, in cents.
func Cents(prices []int) int {
	sum := 0
	for i := 1; i < len(prices); i++ {
		sum += prices[i]
	}
	return sum
}

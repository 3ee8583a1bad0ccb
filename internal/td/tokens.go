package td

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Tokens is a number of tokens: all that is sent, cached or not, and all that is answered.
type Tokens int64

// MaxTokenBudget is the largest token budget: more is a slip of the pen.
const MaxTokenBudget Tokens = 1e15

// ParseTokens reads a number of tokens as people write it: 200000, 200k, 5M, 1.5M.
func ParseTokens(text string) (Tokens, error) {
	digits := strings.TrimSpace(text)
	scale := 1.0
	for unit, by := range map[string]float64{"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9} {
		if rest, is := strings.CutSuffix(digits, unit); is {
			digits, scale = rest, by
			break
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, Errorf(Invalid, "%q is no number of tokens: write 200000, 200k or 5M", text)
	}
	if f *= scale; f < 0 || f > float64(MaxTokenBudget) {
		return 0, Errorf(Invalid, "%s tokens: a budget is between 0 and %d tokens", strings.TrimSpace(text), int64(MaxTokenBudget))
	}
	return Tokens(math.Round(f)), nil
}

// Short is the number as ParseTokens reads it.
func (t Tokens) Short() string {
	switch {
	case t >= 1e6 && t%1e4 == 0:
		return strconv.FormatFloat(float64(t)/1e6, 'f', -1, 64) + "M"
	case t >= 1e3 && t%10 == 0:
		return strconv.FormatFloat(float64(t)/1e3, 'f', -1, 64) + "k"
	}
	return strconv.FormatInt(int64(t), 10)
}

func (t Tokens) String() string { return t.Short() + " tokens" }

// Tokens is how many a call took.
func (u Usage) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Base is the scope without its unit: what a cap bounds, whether in dollars or in tokens.
func (s Scope) Base() Scope {
	switch s {
	case OfTaskTokens:
		return OfTask
	case OfTreeTokens, OfUnpriced:
		return OfTree
	case OfDayTokens:
		return OfDay
	case OfMonthTokens:
		return OfMonth
	}
	return s
}

// InTokens reports whether limits and sums of the scope are tokens, and not millionths of a dollar.
func (s Scope) InTokens() bool { return s.Base() != s }

// Amount is an amount of the scope's unit, as people read it.
func (s Scope) Amount(m Money) string {
	if s.InTokens() {
		return Tokens(m).String()
	}
	return m.String()
}

// Typed is an amount of the scope's unit, as people type it.
func (s Scope) Typed(m Money) string {
	if s.InTokens() {
		return Tokens(m).Short()
	}
	return fmt.Sprintf("%.2f", m.Dollars())
}

// Parse reads an amount of the scope's unit.
func (s Scope) Parse(text string) (Money, error) {
	if s.InTokens() {
		n, err := ParseTokens(text)
		return Money(n), err
	}
	return ParseDollars(text)
}

// Of is the part of a sum that counts towards the cap: its dollars or its tokens.
func (c Cap) Of(amount Money, tokens int64) Money {
	if c.Scope.InTokens() {
		return Money(tokens)
	}
	return amount
}

package llm

import (
	_ "embed"
	"maps"
	"math"
	"math/bits"
	"strings"
	"sync"

	"taskdaemon/internal/td"
)

// builtin is the list prices of the Claude API, with the five-minute cache.
//
//go:embed prices.json
var builtin []byte

// Prices is a table of what models cost, by name. The zero value knows none. It is not changed once made.
type Prices struct{ of map[string]price }

// price is what a million tokens cost, in millionths of a dollar.
type price struct {
	input, output         int64
	cacheRead, cacheWrite int64
	// long is the price of a call whose whole prompt is longer than over tokens, where there is one.
	long *price
	over int64
}

// BuiltinPrices is the table that comes with the program.
var BuiltinPrices = sync.OnceValue(func() Prices {
	p, err := ParsePrices(builtin)
	if err != nil {
		panic("the table of prices that comes with the program: " + err.Error())
	}
	return p
})

// Merge is p with the prices of over, which count where both know the same name. The most precise name
// counts still: a price for "claude" changes none that is known for "claude-opus-4".
func (p Prices) Merge(over Prices) Prices {
	all := make(map[string]price, len(p.of)+len(over.of))
	maps.Copy(all, p.of)
	maps.Copy(all, over.of)
	return Prices{of: all}
}

// Cost is the price of one call's usage; false when the model is not in the table, so that nobody takes
// an unknown price for zero. The longest prefix of the model's name that is in the table counts. A name
// that carries its provider, "provider/model", is looked up as it is and then without.
func (p Prices) Cost(model string, u td.Usage) (td.Money, bool) {
	found, ok := p.find(model)
	if _, bare, slash := strings.Cut(model, "/"); !ok && slash {
		found, ok = p.find(bare)
	}
	if !ok {
		return 0, false
	}
	if found.long != nil && float64(u.Input)+float64(u.CacheRead)+float64(u.CacheWrite) > float64(found.over) {
		found = *found.long
	}
	return found.cost(u), true
}

func (p Prices) find(model string) (price, bool) {
	best, found := "", false
	for prefix := range p.of {
		if names(prefix, model) && (!found || len(prefix) > len(best)) {
			best, found = prefix, true
		}
	}
	return p.of[best], found
}

// cost adds up in 128 bits: a provider may claim any number of tokens.
func (p price) cost(u td.Usage) td.Money {
	const perMillion = 1_000_000
	var hi, lo, carry uint64
	for _, part := range [...]struct{ tokens, price int64 }{
		{u.Input, p.input}, {u.Output, p.output}, {u.CacheRead, p.cacheRead}, {u.CacheWrite, p.cacheWrite},
		{1, perMillion / 2}, // rounds
	} {
		h, l := bits.Mul64(uint64(max(part.tokens, 0)), uint64(part.price))
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	if hi >= perMillion/2 {
		return math.MaxInt64
	}
	money, _ := bits.Div64(hi, lo, perMillion)
	return td.Money(min(money, math.MaxInt64))
}

// names reports whether prefix names model's family: the rest of the name, if any, starts a new part.
func names(prefix, model string) bool {
	rest, ok := strings.CutPrefix(model, prefix)
	return ok && (rest == "" || strings.ContainsRune("-@:[/", rune(rest[0])))
}

package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/typo"
)

const (
	// maxPrice is more dollars than a million tokens of any model cost: what is over it is a mistake,
	// such as a price in cents.
	maxPrice = 100_000
	// maxModelName bounds a name.
	maxModelName = 200
)

// ParsePrices reads a table of prices: a JSON object with the name of a model, or of a family of models,
// and what it costs in dollars for a million tokens:
//
//	{"model": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75,
//	           "long": {"over": 200000, "input": 6, "output": 22.5}}}
//
// Without a price of its own reading from the cache costs a tenth of input, writing to it five quarters.
// Prices under "long" are those of calls whose prompt is longer than "over" tokens. The error of a table
// that cannot be read is Invalid and names the place.
func ParsePrices(raw []byte) (Prices, error) {
	p := Prices{of: map[string]price{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	err := eachField(dec, func(model string) error {
		if model == "" || len(model) > maxModelName || strings.ContainsFunc(model, func(r rune) bool { return r <= ' ' }) {
			return fmt.Errorf("%.40q is no name of a model", model)
		}
		one, err := parsePrice(dec, false)
		if err != nil {
			return fmt.Errorf("%s: %w", model, err)
		}
		p.of[model] = one
		return nil
	})
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something after the table")
		}
	}
	if err != nil {
		line := 1 + bytes.Count(raw[:min(int(dec.InputOffset()), len(raw))], []byte("\n"))
		return Prices{}, td.Errorf(td.Invalid, "read the table of prices: line %d: %w", line, err)
	}
	return p, nil
}

func parsePrice(dec *json.Decoder, long bool) (price, error) {
	var p price
	into := map[string]*int64{"input": &p.input, "output": &p.output, "cache_read": &p.cacheRead, "cache_write": &p.cacheWrite}
	known := append(slices.Collect(maps.Keys(into)), "long")
	if long {
		known[len(known)-1] = "over"
	}
	given := map[string]bool{}
	err := eachField(dec, func(name string) error {
		given[name] = true
		switch {
		case name == "long" && !long:
			l, err := parsePrice(dec, true)
			if err != nil {
				return fmt.Errorf("long: %w", err)
			}
			p.long, p.over = &l, l.over
			return nil
		case name == "over" && long:
			if err := dec.Decode(&p.over); err != nil || p.over <= 0 {
				return errors.New("over is a number of tokens")
			}
			return nil
		case into[name] == nil:
			return fmt.Errorf("there is no %.40q; did you mean %q?", name, typo.Nearest(name, known))
		}
		dollars, err := parseDollars(dec)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*into[name] = dollars
		return nil
	})
	switch {
	case err != nil:
		return price{}, err
	case !given["input"] || !given["output"]:
		return price{}, errors.New("it needs both input and output") // half a price would count as zero
	case long && !given["over"]:
		return price{}, errors.New("it needs over, the tokens from which on it counts")
	}
	if !given["cache_read"] {
		p.cacheRead = p.input / 10
	}
	if !given["cache_write"] {
		p.cacheWrite = p.input * 5 / 4
	}
	return p, nil
}

// parseDollars reads a price, in millionths.
func parseDollars(dec *json.Decoder) (int64, error) {
	var f *float64
	if err := dec.Decode(&f); err != nil || f == nil {
		return 0, errors.New("it is not a number of dollars for a million tokens")
	}
	if *f < 0 || *f > maxPrice {
		return 0, fmt.Errorf("%v is not a price between 0 and %d dollars for a million tokens", *f, maxPrice)
	}
	return int64(math.Round(*f * 1e6)), nil
}

// eachField reads an object and calls value at each of its values, which it must take from dec. A name
// that comes twice is an error: one of the two would be ignored.
func eachField(dec *json.Decoder, value func(name string) error) error {
	if t, err := dec.Token(); err != nil {
		return notJSON(err)
	} else if t != json.Delim('{') {
		return errors.New("it is not an object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		name, _ := t.(string) // the decoder takes nothing else here
		if seen[name] {
			return fmt.Errorf("%.40q is there twice", name)
		}
		seen[name] = true
		if err := value(name); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	return nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("it is not JSON: %w", err)
}

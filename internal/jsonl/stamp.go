package jsonl

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a stamp.
const (
	maxWall  = 253402300799999 // the last millisecond of the year 9999
	maxCount = 1<<24 - 1
	maxActor = 64
)

// The text of a stamp is 12 hex digits, a dash, 6 hex digits, a dash, and the actor.
const (
	wallDigits  = 12
	countDigits = 6
	actorAt     = wallDigits + 1 + countDigits + 1
)

// Stamp is a reading of a hybrid logical clock and who read it. It names one change, and of two changes it
// says which is the newer.
type Stamp struct {
	Wall  int64  // milliseconds since 1970
	Count uint32 // tells readings within one millisecond apart, or after a clock that was set back
	Actor string // 1 to 64 of a-z, 0-9, dot and dash; tells clones apart
}

// Compare is negative, zero or positive as s is older than t, the same or newer. Texts of stamps compare
// bytewise like the stamps.
func (s Stamp) Compare(t Stamp) int {
	if c := cmp.Compare(s.Wall, t.Wall); c != 0 {
		return c
	}
	if c := cmp.Compare(s.Count, t.Count); c != 0 {
		return c
	}
	return strings.Compare(s.Actor, t.Actor)
}

// Time is the wall clock's part.
func (s Stamp) Time() time.Time { return time.UnixMilli(s.Wall) }

// String is the text of the stamp, as it stands in a log.
func (s Stamp) String() string { return string(s.append(nil)) }

func (s Stamp) append(dst []byte) []byte {
	dst = appendHex(dst, uint64(s.Wall), wallDigits)
	dst = append(dst, '-')
	dst = appendHex(dst, uint64(s.Count), countDigits)
	dst = append(dst, '-')
	return append(dst, s.Actor...)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexDigits[v>>(4*i)&15])
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// parseStamp reads the text of a stamp. There is one text for each stamp, and no other is taken. The way to keep the actor's
// name is its caller's, who has it already as a rule.
func parseStamp(text []byte, keep func([]byte) string) (Stamp, bool) {
	if len(text) <= actorAt || text[wallDigits] != '-' || text[actorAt-1] != '-' || !isActor(text[actorAt:]) {
		return Stamp{}, false
	}
	wall, ok := parseHex(text[:wallDigits])
	count, fine := parseHex(text[wallDigits+1 : actorAt-1])
	if !ok || !fine || wall > maxWall {
		return Stamp{}, false
	}
	return Stamp{Wall: int64(wall), Count: uint32(count), Actor: keep(text[actorAt:])}, true
}

func parseHex(text []byte) (v uint64, ok bool) {
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

func isActor[T string | []byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxActor
}

// check says what keeps s from being written.
func (s Stamp) check() error {
	switch {
	case !isActor(s.Actor):
		return fmt.Errorf("%s is no actor: 1 to %d of a-z, 0-9, dot and dash are", brief(s.Actor), maxActor)
	case s.Wall < 0 || s.Wall > maxWall:
		return fmt.Errorf("the clock shows %d ms, which is outside the years 1970 to 9999", s.Wall)
	case s.Count > maxCount:
		return fmt.Errorf("the clock counted to %d, which is over %d", s.Count, maxCount)
	}
	return nil
}

// brief quotes text that anybody may have written, cut to what fits in a message.
func brief(text string) string {
	if len(text) > 80 {
		return strconv.QuoteToASCII(text[:80]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

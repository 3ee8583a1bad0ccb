package window

import (
	"taskdaemon/internal/td"
)

// What a message costs beside its text. Providers wrap messages, calls and results in words of their own and
// put instructions before the tools; measured at 7 for a message of one letter and up to 530 for the
// first tool.
const (
	messageTokens = 8
	blockTokens   = 4
	callTokens    = 16
	toolsTokens   = 530
	sealBytes     = 3 // bytes of an encrypted seal that stand for one token of what was thought
)

// class is what the estimate tells bytes apart by.
type class = uint8

const (
	lower class = iota
	upper
	digit
	space
	tab
	newline
	mark  // ASCII punctuation
	odd   // control characters, and bytes that are in no text
	tail  // the rest of a character of several bytes
	lead2 // the first byte of a character of two: Greek, Cyrillic, Hebrew, Arabic, accents
	lead3 // of three: CJK, kana, Hangul
	rare3 // of three: symbols, Indic and other scripts that few tokenizers have learned
	lead4 // of four: emoji
	classes
)

// parts is how finely a token is divided.
const parts = 100

var (
	classOf = classTable()
	// costs holds what a byte costs after another, in parts of a token, at [before*16+byte].
	costs = costTable()
)

func classTable() (t [256]class) {
	for c := range t {
		switch b := byte(c); {
		case 'a' <= b && b <= 'z':
			t[c] = lower
		case 'A' <= b && b <= 'Z':
			t[c] = upper
		case '0' <= b && b <= '9':
			t[c] = digit
		case b == ' ':
			t[c] = space
		case b == '\t':
			t[c] = tab
		case b == '\n' || b == '\r':
			t[c] = newline
		case '!' <= b && b <= '~':
			t[c] = mark
		case 0x80 <= b && b < 0xc0:
			t[c] = tail
		case 0xc2 <= b && b < 0xe0:
			t[c] = lead2
		case b == 0xe0, b == 0xe1, b == 0xe2, b == 0xee, b == 0xef:
			t[c] = rare3
		case 0xe3 <= b && b < 0xee:
			t[c] = lead3
		case 0xf0 <= b && b < 0xf5:
			t[c] = lead4
		default:
			t[c] = odd
		}
	}
	return t
}

func costTable() (t [256]uint16) {
	// What a byte costs where the one before it says nothing.
	alone := [classes]uint16{
		lower: 100, upper: 100, digit: 100, space: 25, tab: 60, newline: 100, mark: 90, odd: 100,
		tail: 60, lead2: 60, lead3: 80, rare3: 180, lead4: 200,
	}
	for before := range classes {
		for c, cost := range alone {
			t[int(before)*16+c] = cost
		}
	}
	set := func(before, c class, cost uint16) { t[int(before)*16+int(c)] = cost }
	// A word: about three letters a token once it has begun, and its space belongs to it.
	set(space, lower, 76)
	set(lower, lower, 36)
	set(upper, lower, 45)
	set(upper, upper, 65)
	// Where the case or the kind changes a new token begins. Words do that seldom, base64 and hashes at
	// every other byte, and these cost about one token for a byte and a half.
	set(lower, upper, 120)
	for _, letter := range []class{lower, upper} {
		set(letter, digit, 120)
		set(digit, letter, 120)
	}
	// A space joins a word but neither a number nor a symbol. Runs of it are single tokens, up to a length.
	set(space, digit, 180)
	for _, c := range []class{lead2, lead3, rare3, lead4} {
		set(space, c, alone[c]+100)
	}
	set(space, space, 10)
	set(newline, space, 60)
	set(tab, tab, 25)
	set(newline, newline, 40)
	// Marks come in known pairs, such as `":` and `);`.
	set(mark, mark, 70)
	return t
}

// Tokens estimates how many tokens a model reads text as. It errs high: it is meant never to be under what
// the tokenizers in use count, for prose, code, JSON, numbers, base64 and all scripts, because what is
// counted too high is compacted a little early and what is counted too low is refused by the provider.
//
// Each byte costs a part of a token that follows from its kind and that of the byte before. The parts
// are set above the densest tokenizer whose counts are known: English comes to 2.3 bytes a token (older
// tokenizers: above 4, the newest ones 2.7), code to 1.8, dense JSON to 1.5, base64 to 1.2, a digit to a
// token of its own, CJK to 2 tokens a character, symbols to 3, emoji to 4. What a provider really
// counted corrects the whole: see Scale.
func Tokens(text string) int { return tokens(text) }

func tokens[T string | []byte](text T) int { return (cost(text) + parts - 1) / parts }

// cost is what text costs in parts of a token. After a restart all texts of a long conversation pass through here
// at once, so it takes four bytes at a time.
func cost[T string | []byte](text T) int {
	sum, before := 0, newline
	for len(text) >= 4 {
		a, b, c, d := classOf[text[0]], classOf[text[1]], classOf[text[2]], classOf[text[3]]
		sum += int(costs[before<<4|a]) + int(costs[a<<4|b]) + int(costs[b<<4|c]) + int(costs[c<<4|d])
		before, text = d, text[4:]
	}
	for i := range len(text) {
		c := classOf[text[i]]
		sum += int(costs[before<<4|c])
		before = c
	}
	return sum
}

// MessageTokens estimates a message with all its blocks and what a provider wraps around them.
func MessageTokens(m td.Message) int {
	n := messageTokens
	for i := range m.Blocks {
		n += blockTokensOf(&m.Blocks[i])
	}
	return n
}

func blockTokensOf(b *td.Block) int {
	n := blockTokens + Tokens(b.Text) + (len(b.Signature)+len(b.Data))/sealBytes
	if b.Type == td.ToolUseBlock || b.Type == td.ToolResultBlock {
		n += callTokens + Tokens(b.ID) + Tokens(b.Name) + tokens([]byte(b.Input)) + Tokens(b.Malformed)
	}
	return n
}

// Parts is what a call to a model consists of, in estimated tokens.
type Parts struct {
	System  int `json:"system"`  // the base prompt and the rules
	Tools   int `json:"tools"`   // what the model is told of its tools
	Opening int `json:"opening"` // what stands before the first answer: environment and task statement
	History int `json:"history"` // all after it
}

// Total is all of it.
func (p Parts) Total() int { return p.System + p.Tools + p.Opening + p.History }

// Count estimates a call by its parts, before any Scale. It is pure.
func Count(system string, tools []byte, msgs []td.Message) Parts {
	p := Parts{System: Tokens(system)}
	if len(tools) > 0 {
		p.Tools = toolsTokens + tokens(tools)
	}
	first := opening(msgs)
	for i := range msgs {
		if n := MessageTokens(msgs[i]); i < first {
			p.Opening += n
		} else {
			p.History += n
		}
	}
	return p
}

package window

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"taskdaemon/internal/td"

	"pgregory.net/rapid"
)

// What tokenizers in use count for texts, as published for the Claude API and for cl100k, the larger of the
// two where both are known. The newest tokenizers count up to 1.6 times as much for Latin letters: factor.
var published = []struct {
	text   string
	tokens int
	factor float64
}{
	{"Hello, world!", 4, 1.6},
	{"A", 1, 1},
	{"42", 2, 1},
	{"GPT-4o", 5, 1},
	{"2 + 2 = 4", 7, 1},
	{"   hello   ", 3, 1.4},
	{"antidisestablishmentarianism", 6, 1.6},
	{"The quick brown fox jumps over the lazy dog.", 11, 1.6},
	{"Machine learning models process text as tokens. Token boundaries often differ from word boundaries.", 16, 1.6},
	{"https://www.example.com", 7, 1.3},
	{"word1     word2\t\tword3\n\n\nword4   \t  word5", 16, 1.2},
	{"!!! ??? ... --- ~~~ *** ### @@@ ::: ;;; ||| /// \\\\", 25, 1},
	{strings.Repeat("a", 64), 23, 1},
	{"0 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597 2584 4181 6765", 44, 1},
	{"1000000 9999999 10000000 123456789 1000000000 9876543210 100000000000 999999999999", 36, 1},
	{"d41d8cd98f00b204e9800998ecf8427e 5d41402abc4b2a76b9719d911017c592 098f6bcd4621d373cade4e832627b4f6", 58, 1.1},
	{"550e8400-e29b-41d4-a716-446655440000 6ba7b810-9dad-11d1-80b4-00c04fd430c8 f47ac10b-58cc-4372-a567-0e02b2c3d479", 71, 1.1},
	{"0x00 0x01 0x0F 0x10 0x7F 0x80 0xFF 0x100 0xDEAD 0xBEEF 0xCAFE 0xBABE", 59, 1.1},
	{"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", 79, 1.1},
	{"お誕生日おめでとう", 14, 1},
	{"人工智能正在改变世界。机器学习模型可以理解和生成自然语言。深度学习是人工智能的重要分支。", 45, 1},
	{"인공지능은 세상을 바꾸고 있습니다. 기계 학습 모델은 자연어를 이해하고 생성할 수 있습니다. 딥러닝은 인공지능의 중요한 분야입니다.", 78, 1},
	{"مرحبا شكرا مع السلامة نعم لا ربما اليوم غداً أمس", 33, 1},
	{"→ ← ↑ ↓ ↔ ↕ ⇒ ⇐ ⇑ ⇓ ⇔ ⟹ ⟸ ⟺ ↗ ↘ ↙ ↖ ↩ ↪ ↺ ↻ ⤴ ⤵", 100, 1},
	{"© ® ™ § ¶ † ‡ • … ← → ↑ ↓ ↔ ≠ ≤ ≥ ± × ÷ √ ∞ ∑ ∏ ∫", 69, 1},
	{"😀 😂 🤔 🎉 🚀 🌍 🔥 💡 ❤️ 🐍 🦊 🌈 ⭐ 🎵 🏆", 61, 1},
	{"🇺🇸 🇬🇧 🇫🇷 🇩🇪 🇯🇵 🇨🇳 🇮🇳 🇧🇷 🇨🇦 🇦🇺 🇰🇷 🇷🇺 🇮🇹 🇪🇸 🇲🇽", 105, 1},
	{"1️⃣ 2️⃣ 3️⃣ 4️⃣ 5️⃣ 6️⃣ 7️⃣ 8️⃣ 9️⃣ 0️⃣ #️⃣ *️⃣", 81, 1},
}

func TestTokensNeverUnder(t *testing.T) {
	for _, p := range published {
		got, want := Tokens(p.text), int(float64(p.tokens)*p.factor)
		t.Logf("%5.2f bytes a token, %4.2f of the count  %.40q", float64(len(p.text))/float64(got), float64(got)/float64(p.tokens), p.text)
		if got < want {
			t.Errorf("%.60q: %d tokens, tokenizers count up to %d", p.text, got, want)
		}
		if got > 4*p.tokens+4 {
			t.Errorf("%.60q: %d tokens where %d are counted: far too many", p.text, got, p.tokens)
		}
	}
}

// Bytes a token by kind of text, where only the density is known.
func TestTokensDensity(t *testing.T) {
	sum := sha256.Sum256(nil)
	var noise []byte
	for range 64 {
		noise = append(noise, sum[:]...)
		sum = sha256.Sum256(sum[:])
	}
	for _, c := range []struct {
		name   string
		text   string
		at     float64 // bytes a token of the densest tokenizer
		little float64 // below this the window would be wasted
	}{
		{"English", strings.Repeat("It was the best of times, it was the worst of times, it was the age of wisdom. ", 20), 2.9, 2.2},
		{"Go", strings.Repeat("func (s *Store) Append(ctx context.Context, ev td.Event) error {\n\treturn s.write(ctx, ev)\n}\n\n", 20), 2.6, 1.5},
		{"JSON", strings.Repeat(`{"id":"a","type":"created","state":"queued","seq":1},`, 20), 2.2, 1.3},
		{"base64", base64.StdEncoding.EncodeToString(noise), 1.35, 1.0},
		{"spaces", strings.Repeat(" ", 4096), 16, 5},
		{"indentation", strings.Repeat("\t\t\t\tx\n", 100), 2, 1.2},
		{"newlines", strings.Repeat("\n", 1000), 4, 2},
		{"digits", strings.Repeat("1234567890", 50), 1, 0.9},
		{"Chinese", strings.Repeat("在北京的一个下午", 50), 2, 1.2},
	} {
		got := float64(len(c.text)) / float64(Tokens(c.text))
		t.Logf("%s: %.2f bytes a token", c.name, got)
		if got > c.at || got < c.little {
			t.Errorf("%s: %.2f bytes a token, want %.2f to %.2f", c.name, got, c.little, c.at)
		}
	}
}

func TestTokensAddUp(t *testing.T) {
	if Tokens("") != 0 {
		t.Error("nothing costs something")
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		// A cut costs at most the start of a token more.
		if whole := Tokens(a + b); whole > Tokens(a)+Tokens(b)+2 || whole < Tokens(a) {
			t.Fatalf("%d tokens, parts %d and %d", whole, Tokens(a), Tokens(b))
		}
	})
}

func TestCountParts(t *testing.T) {
	msgs := []td.Message{user("task"), assistant("hm"), user("go on")}
	p := Count("rules", []byte(`[{"name":"Bash"}]`), msgs)
	if p.Opening != MessageTokens(msgs[0]) || p.History != MessageTokens(msgs[1])+MessageTokens(msgs[2]) ||
		p.System != Tokens("rules") || p.Tools <= toolsTokens || p.Total() != p.System+p.Tools+p.Opening+p.History {
		t.Errorf("parts: %+v", p)
	}
	if p := Count("", nil, nil); p != (Parts{}) {
		t.Errorf("nothing: %+v", p)
	}
	// Every field that is sent is counted.
	long := strings.Repeat("some words ", 50)
	for name, b := range map[string]td.Block{
		"text":      {Type: td.TextBlock, Text: long},
		"signature": {Type: td.ThinkingBlock, Signature: long},
		"data":      {Type: td.RedactedThinkingBlock, Data: long},
		"input":     {Type: td.ToolUseBlock, Input: []byte(long)},
		"result":    {Type: td.ToolResultBlock, Text: long},
	} {
		if n := MessageTokens(td.Message{Blocks: []td.Block{b}}); n < 100 {
			t.Errorf("%s: %d tokens", name, n)
		}
	}
}

func TestScale(t *testing.T) {
	if got := (Scale{}).Of(77); got != 77 {
		t.Errorf("no scale: %d", got)
	}
	s := Calibrate(td.Usage{Input: 10, CacheRead: 500, CacheWrite: 90, Output: 7777}, 1000)
	for estimate, want := range map[int]int{0: 0, 500: 300, 1000: 600, 1200: 800} {
		if got := s.Of(estimate); got != want {
			t.Errorf("%d scaled down: %d, want %d", estimate, got, want)
		}
	}
	s = Calibrate(td.Usage{Input: 1500}, 1000)
	for estimate, want := range map[int]int{1: 2, 500: 750, 1000: 1500, 2000: 3000} {
		if got := s.Of(estimate); got != want {
			t.Errorf("%d scaled up: %d, want %d", estimate, got, want)
		}
	}
	for name, s := range map[string]Scale{
		"nothing counted":   Calibrate(td.Usage{}, 1000),
		"negative":          Calibrate(td.Usage{Input: -5}, 1000),
		"nothing estimated": Calibrate(td.Usage{Input: 5}, 0),
	} {
		if s != (Scale{}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if got := Calibrate(td.Usage{Input: 3}, 100000).Of(100000); got < 40000 {
		t.Errorf("a count without the cache was believed: %d", got)
	}
	if got := Calibrate(td.Usage{Input: 1 << 60}, 100).Of(100); got > 400 {
		t.Errorf("an absurd count was believed: %d", got)
	}
}

func TestScaleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		estimated := rapid.IntRange(1, 1_000_000).Draw(t, "estimated")
		counted := rapid.Int64Range(0, 2_000_000).Draw(t, "counted")
		s := Calibrate(td.Usage{Input: counted}, estimated)
		if rapid.Bool().Draw(t, "rated") {
			s.Rate = rapid.Float64Range(0, 5).Draw(t, "rate")
		}
		a, b := rapid.IntRange(0, 2_000_000).Draw(t, "a"), rapid.IntRange(0, 2_000_000).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		if s.Of(a) > s.Of(b) {
			t.Fatalf("%+v: %d is more than %d", s, s.Of(a), s.Of(b))
		}
		if a >= estimated && s.Rate == 0 && s.Of(b)-s.Of(a) < b-a {
			t.Fatalf("%+v: %d more count as %d", s, b-a, s.Of(b)-s.Of(a))
		}
		if s.Counted > 0 && s.Of(estimated) != s.Counted {
			t.Fatalf("%+v: the counted call counts as %d", s, s.Of(estimated))
		}
		if n := s.back(a); s.Of(n) > a || s.Of(n+1) <= a && a > 0 {
			t.Fatalf("%+v: %d goes back to %d, which is %d, and the next %d", s, a, n, s.Of(n), s.Of(n+1))
		}
	})
}

// What the provider is asked about is what may be on either side of the limit, by the bounds of what estimates may be off.
func TestUnsure(t *testing.T) {
	for _, c := range []struct {
		s               Scale
		estimate, limit int
		want            bool
	}{
		{Scale{}, 100, 100, false},
		{Scale{}, 101, 100, true},
		{Scale{}, 250, 100, true},
		{Scale{}, 260, 100, false},
		{Scale{Rate: 0.5}, 150, 100, true}, // other conversations may have been of another kind
		{Scale{Rate: 2}, 60, 100, true},
		{Scale{Rate: 2}, 50, 100, false},
		{Scale{Counted: 50, Estimated: 100}, 149, 100, false},
		{Scale{Counted: 50, Estimated: 100}, 151, 100, true},
		{Scale{Counted: 99, Estimated: 200}, 200, 100, false}, // it was just counted
		{Scale{Counted: 101, Estimated: 200}, 200, 100, false},
	} {
		if got := c.s.Unsure(c.estimate, c.limit); got != c.want {
			t.Errorf("%+v of %d, limit %d: %v", c.s, c.estimate, c.limit, got)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		b    Budget
		want int
	}{
		{Budget{200000, 16384, 0.9}, 180000},
		{Budget{200000, 64000, 0.9}, 136000},
		{Budget{32768, 16384, 0.9}, 16384},
		{Budget{200000, 0, 0}, 200000},
		{Budget{1000, 5000, 0.5}, 0},
		{Budget{-1, -1, 2}, 0},
	} {
		if got := c.b.Limit(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.b, got, c.want)
		}
	}
}

func user(text string) td.Message {
	return td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}}
}

func assistant(text string) td.Message {
	return td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}}
}

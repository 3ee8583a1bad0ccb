package rehearsal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// Play is what a script does about one request: an answer and, if Fault is set, what goes wrong on its
// way. llmtest's server plays the same scripts over HTTP.
type Play struct {
	Model   string
	Message td.Message
	Stop    td.StopReason
	Usage   td.Usage
	Fault   *Fault
	Pace    Pace
}

// Pace is how an answer is dealt out: Before passes first, then Pause after each piece of Size characters.
type Pace struct {
	Before time.Duration
	Size   int
	Pause  time.Duration
}

// Garbled is what a garbage fault sends as a tool's input.
const Garbled = `{"rehearsal": "this is not JSON`

// Play decides what to do about req. It depends on nothing else.
func (s *Script) Play(req llm.Request) Play {
	sc := s.scene(opening(req.Messages))
	if sc == nil {
		return builtin().Play(req)
	}
	at := sc.place(req)
	p := Play{Model: s.model()}
	t := sc.turn(at.turn)
	switch {
	case t == nil:
		t = &turn{text: "The rehearsal script has ended.", stop: td.EndTurn}
	case t.expect != "" && !strings.Contains(lastResult(req.Messages), t.expect):
		t = unmet(t, req)
	default:
		p.Fault = t.fault(at.fault, req)
	}
	p.Message = t.message(at, req)
	if p.Fault != nil && p.Fault.Garbage {
		for i, b := range p.Message.Blocks {
			if b.Type == td.ToolUseBlock {
				p.Message.Blocks[i].Input, p.Message.Blocks[i].Malformed = json.RawMessage("{}"), Garbled
			}
		}
	}
	p.Stop = t.stop
	if t.usage != nil {
		p.Usage = *t.usage
	} else {
		p.Usage = estimate(req, p.Message)
	}
	p.Pace = t.pace(s.chunk, letters(p.Message))
	return p
}

// fault is what goes wrong at an attempt, or nil. A request that fits what an earlier one was over is answered,
// whatever its number.
func (t *turn) fault(attempt int, req llm.Request) *Fault {
	if attempt >= len(t.faults) {
		return nil
	}
	f := &t.faults[attempt]
	if f.TooLong > 0 && estimate(req, td.Message{}).Input <= f.TooLong {
		return nil
	}
	return f
}

// place is where in a scene a conversation stands.
type place struct {
	turn  int  // answers played to their end
	fault int  // of the turn, the next to play
	again int  // how often its tool calls came garbled
	said  bool // its text was kept from a cut stream: only its tools are left to play
}

// place reads off the conversation how far the scene is. Each answer is a turn, except for the two
// kinds of fault that leave an answer behind: garbled tool calls, and text kept from a cut stream. After
// those the same turn goes on behind the fault.
func (s *scene) place(req llm.Request) place {
	at := place{turn: max(0, req.Answers-answers(req.Messages))} // what was compacted away was played
	for _, m := range req.Messages {
		if m.Role != td.Assistant {
			continue
		}
		t := s.turn(at.turn)
		if t == nil {
			break
		}
		if k := t.nextFault(at.fault, func(f Fault) bool { return f.Garbage }); k >= 0 && garbled(m) {
			at.fault, at.again = k+1, at.again+1
			continue
		}
		cut := t.nextFault(at.fault, func(f Fault) bool { return f.Cut != nil })
		if cut >= 0 && len(t.tools) > 0 && len(m.ToolUses()) == 0 {
			at.fault, at.said = cut+1, true
			continue
		}
		at = place{turn: at.turn + 1}
	}
	at.fault += req.Attempt
	return at
}

func answers(msgs []td.Message) (n int) {
	for _, m := range msgs {
		if m.Role == td.Assistant {
			n++
		}
	}
	return n
}

func (t *turn) nextFault(from int, is func(Fault) bool) int {
	for k := from; k < len(t.faults); k++ {
		if is(t.faults[k]) {
			return k
		}
	}
	return -1
}

func garbled(m td.Message) bool {
	for _, b := range m.Blocks {
		if b.Malformed != "" {
			return true
		}
	}
	return false
}

func (t *turn) message(at place, req llm.Request) td.Message {
	fill := filler(at.turn, req.Messages)
	m := td.Message{Role: td.Assistant}
	if t.thinking != "" && !at.said {
		m.Blocks = append(m.Blocks, td.Block{Type: td.ThinkingBlock, Text: fill.Replace(t.thinking)})
	}
	if t.text != "" && !at.said {
		m.Blocks = append(m.Blocks, td.Block{Type: td.TextBlock, Text: fill.Replace(t.text)})
	}
	for i, c := range t.tools {
		id := c.id
		if id == "" {
			id = fmt.Sprintf("toolu_rehearsal_%d_%d", at.turn, i)
		} else if t.repeat != 1 {
			id = fmt.Sprintf("%s_%d", id, at.turn)
		}
		if at.again > 0 { // the garbled calls before it had the same place
			id = fmt.Sprintf("%s_again%d", id, at.again)
		}
		m.Blocks = append(m.Blocks, td.Block{
			Type: td.ToolUseBlock, ID: id, Name: c.name, Input: fillInput(fill, c.input),
		})
	}
	return m
}

// unmet is played in place of a turn whose expectation does not hold, so that a demo cannot claim what
// did not happen.
func unmet(t *turn, req llm.Request) *turn {
	why := fmt.Sprintf("The rehearsal script expected the last result to contain %q, and it does not.", t.expect)
	out := &turn{text: why, stop: td.EndTurn, repeat: 1}
	for _, tool := range req.Tools {
		if tool.Name == "Fail" {
			input, _ := json.Marshal(map[string]string{firstRequired(tool.Schema, "reason"): why})
			out.tools, out.stop = []toolCall{{name: "Fail", input: input}}, td.StopToolUse
		}
	}
	return out
}

// firstRequired is the name of the first parameter a tool insists on.
func firstRequired(schema json.RawMessage, otherwise string) string {
	var s struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &s) == nil && len(s.Required) > 0 {
		return s.Required[0]
	}
	return otherwise
}

// maxFill bounds what of a result goes into a text.
const maxFill = 2000

// filler puts what the script may refer to into its words. What is put in is not looked at again.
func filler(turn int, messages []td.Message) *strings.Replacer {
	result := []rune(lastResult(messages))
	if len(result) > maxFill {
		result = append(result[:maxFill], '…')
	}
	task := ""
	if m := taskLine.FindStringSubmatch(opening(messages)); m != nil {
		task = m[1]
	}
	return strings.NewReplacer("{{result}}", string(result), "{{turn}}", strconv.Itoa(turn+1), "{{task}}", task)
}

// taskLine is where an opening names its task.
var taskLine = regexp.MustCompile(`(?m)^task: (\S+)`)

func fillInput(fill *strings.Replacer, raw json.RawMessage) json.RawMessage {
	if !strings.Contains(string(raw), "{{") {
		return raw
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return raw
	}
	out, err := json.Marshal(fillValue(fill, v))
	if err != nil {
		return raw
	}
	return out
}

func fillValue(fill *strings.Replacer, v any) any {
	switch v := v.(type) {
	case string:
		return fill.Replace(v)
	case []any:
		for i := range v {
			v[i] = fillValue(fill, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = fillValue(fill, v[k])
		}
	}
	return v
}

func opening(messages []td.Message) string {
	for _, m := range messages {
		if m.Role == td.User {
			return m.Text()
		}
	}
	return ""
}

// lastResult is what the newest tool calls gave back.
func lastResult(messages []td.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		var parts []string
		for _, b := range messages[i].Blocks {
			if b.Type == td.ToolResultBlock {
				parts = append(parts, b.Text)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, "\n")
		}
	}
	return ""
}

// estimate is the usage of a call.
func estimate(req llm.Request, answer td.Message) td.Usage {
	return td.Usage{Input: int64(Tokens(req)), Output: int64(size(answer)+3) / 4}
}

// Tokens counts the tokens of a call by length, four bytes each: a rehearsal has no tokenizer.
func Tokens(req llm.Request) int {
	in := len(req.System)
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range req.Messages {
		in += size(m)
	}
	return (in + 3) / 4
}

func size(m td.Message) int {
	n := 0
	for _, b := range m.Blocks {
		n += len(b.Text) + len(b.Name) + len(b.Input)
	}
	return n
}

func letters(m td.Message) int {
	n := 0
	for _, b := range m.Blocks {
		if b.Type == td.TextBlock || b.Type == td.ThinkingBlock {
			n += len([]rune(b.Text))
		}
	}
	return n
}

// pace spreads the latency over the text, or lets what the pieces leave of it pass first.
func (t *turn) pace(script chunk, letters int) Pace {
	c := script
	if t.chunk != nil {
		c = *t.chunk
	}
	p := Pace{Size: c.size, Pause: c.delay}
	if p.Size == 0 {
		p.Size = 1 << 20
		if t.latency > 0 || c.delay > 0 {
			p.Size = 12
		}
	}
	pieces := (letters + p.Size - 1) / p.Size
	switch {
	case pieces == 0:
		p.Before = t.latency
	case c.delay > 0:
		p.Before = max(0, t.latency-time.Duration(pieces)*c.delay)
	default:
		p.Pause = t.latency / time.Duration(pieces)
	}
	return p
}

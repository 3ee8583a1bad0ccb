package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/schema"
	"taskdaemon/internal/td"
)

const (
	maxTools   = 20
	maxCommand = 16 << 10
	maxInput   = 64 << 10 // it goes into the environment, where a value may have 128 KiB
	maxTimeout = time.Hour
)

// Tool is a tool that a skill brings: a command with a schema. Nothing is known about what it does, so
// its effect is opaque and it must be run as such.
type Tool struct {
	Name        string // the skill's and its own, with two underscores between: no other skill has it
	Description string
	Schema      json.RawMessage // of an object
	Timeout     time.Duration   // zero: the caller's default

	command string
	dir     string
	schema  *jsonschema.Resolved
}

// Identity tells the tool from any other that may come to have its name: it changes with the command and the schema.
func (t Tool) Identity() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n%s%s", len(t.command), t.command, t.Schema)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))[:40]
}

// Invocation is a call of a tool, ready for a shell in the workspace.
type Invocation struct {
	Shell string   // the command; the input is on its standard input, as JSON on one line
	Env   []string // SKILL_DIR, SKILL_INPUT with the same JSON, and INPUT_<name> for each plain value
}

var (
	toolForm = regexp.MustCompile(`^[A-Za-z](?:[A-Za-z0-9-]|_[A-Za-z0-9-])*$`)
	envForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func parseTools(skill string, n frontmatter.Node) (tools []Tool, problems []error) {
	if n.Kind == frontmatter.Null {
		return nil, nil
	}
	if n.Kind != frontmatter.List {
		// Other programs know a key of this name that lists the tools a skill may use.
		return nil, []error{frontmatter.Errorf(n.Line, "tools is a list of tools with name, description and command; the skill is used without it")}
	}
	for i, item := range n.Items {
		if i == maxTools {
			return tools, append(problems, frontmatter.Errorf(item.Line, "a skill has at most %d tools; the rest is left out", maxTools))
		}
		t, err := parseTool(skill, item)
		if err == nil && slices.ContainsFunc(tools, func(o Tool) bool { return o.Name == t.Name }) {
			err = frontmatter.Errorf(item.Line, "tool %s is there twice", t.Name)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		tools = append(tools, t)
	}
	return tools, problems
}

func parseTool(skill string, n frontmatter.Node) (Tool, error) {
	if n.Kind != frontmatter.Map {
		return Tool{}, frontmatter.Errorf(n.Line, "a tool has a name, a description and a command")
	}
	var t Tool
	var name string
	t.Schema = json.RawMessage(`{"type":"object"}`)
	for _, f := range n.Fields {
		var err error
		switch f.Key {
		case "name":
			name, err = f.Value.String()
		case "description":
			t.Description, err = f.Value.String()
			t.Description = oneLine(t.Description, maxDescription)
		case "command":
			t.command, err = f.Value.String()
		case "schema":
			t.Schema = f.Value.JSON()
		case "params":
			t.Schema, err = paramSchema(f.Value)
		case "timeout":
			t.Timeout, err = timeout(f.Value)
		default:
			err = frontmatter.Errorf(f.Line, "a tool has no key %q: it has name, description, command, schema or params, and timeout", printable(f.Key))
		}
		if err != nil {
			return Tool{}, err
		}
	}
	t.Name = skill + "__" + name
	switch {
	case !toolForm.MatchString(name) || len(t.Name) > 64:
		return Tool{}, frontmatter.Errorf(n.Line, "%q is no name for a tool: letters, digits, hyphens and single underscores, %d at most", printable(name), 62-len(skill))
	case t.Description == "":
		return Tool{}, frontmatter.Errorf(n.Line, "tool %s has no description", name)
	case strings.TrimSpace(t.command) == "":
		return Tool{}, frontmatter.Errorf(n.Line, "tool %s has no command", name)
	case len(t.command) > maxCommand:
		return Tool{}, frontmatter.Errorf(n.Line, "the command of tool %s has more than %d bytes", name, maxCommand)
	}
	var err error
	if t.schema, err = compile(t.Schema); err != nil {
		return Tool{}, frontmatter.Errorf(n.Line, "the schema of tool %s cannot be used: %v", name, err)
	}
	return t, nil
}

// compile checks that a schema is one, of an object, and needs nothing from elsewhere.
func compile(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var top struct{ Type any }
	if err := json.Unmarshal(raw, &top); err != nil || top.Type != "object" {
		return nil, fmt.Errorf("its type is not object")
	}
	return schema.Compile(raw)
}

// paramSchema makes a schema of the short form: a name with a description, or with type, description,
// enum and optional.
func paramSchema(n frontmatter.Node) (json.RawMessage, error) {
	if n.Kind != frontmatter.Map {
		return nil, frontmatter.Errorf(n.Line, "params is a list of names with descriptions")
	}
	var props []string
	required := []string{}
	for _, f := range n.Fields {
		prop, optional, err := param(f.Value)
		if err != nil {
			return nil, err
		}
		props = append(props, quote(f.Key)+":"+prop)
		if !optional {
			required = append(required, quote(f.Key))
		}
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		strings.Join(props, ","), strings.Join(required, ","))), nil
}

func param(n frontmatter.Node) (schema string, optional bool, err error) {
	if n.Kind != frontmatter.Map {
		description, err := n.String()
		return fmt.Sprintf(`{"type":"string","description":%s}`, quote(description)), false, err
	}
	kind, parts := "string", []string{}
	for _, f := range n.Fields {
		switch f.Key {
		case "type":
			if kind, err = f.Value.String(); err == nil && !slices.Contains([]string{"string", "integer", "number", "boolean"}, kind) {
				err = frontmatter.Errorf(f.Line, "the type is string, integer, number or boolean; write a schema for more")
			}
		case "description":
			var d string
			d, err = f.Value.String()
			parts = append(parts, `"description":`+quote(d))
		case "enum":
			if f.Value.Kind != frontmatter.List {
				err = frontmatter.Errorf(f.Line, "enum is a list")
			}
			parts = append(parts, `"enum":`+string(f.Value.JSON()))
		case "optional":
			optional = f.Value.Kind == frontmatter.Bool && strings.EqualFold(f.Value.Text, "true")
		default:
			err = frontmatter.Errorf(f.Line, "a parameter has type, description, enum and optional, not %q", printable(f.Key))
		}
		if err != nil {
			return "", false, err
		}
	}
	return "{" + strings.Join(append([]string{`"type":` + quote(kind)}, parts...), ",") + "}", optional, nil
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	return string(raw)
}

func timeout(n frontmatter.Node) (time.Duration, error) {
	s, err := n.String()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxTimeout {
		return 0, frontmatter.Errorf(n.Line, "%q is not a time such as 30s, up to %v", printable(s), maxTimeout)
	}
	return d, nil
}

// Invoke readies a call. Its error tells the model what is wrong with the input. Effect: none; running
// the result is opaque, and an interrupted run is found again only by whoever supervises the process.
func (t Tool) Invoke(input json.RawMessage) (inv Invocation, err error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	if len(input) > maxInput {
		return inv, td.Errorf(td.Invalid, "the input has %d bytes, the limit is %d", len(input), maxInput)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, input); err != nil {
		return inv, td.Errorf(td.Invalid, "the input is not valid JSON: %w", err)
	}
	var values map[string]any
	if err := json.Unmarshal(input, &values); err != nil || values == nil {
		return inv, td.Errorf(td.Invalid, "the input is not a JSON object")
	}
	if err := t.schema.Validate(values); err != nil {
		return inv, td.Errorf(td.Invalid, "the input does not fit the schema: %s", oneLine(err.Error(), 400))
	}
	inv.Env = []string{"SKILL_DIR=" + t.dir, "SKILL_INPUT=" + line.String()}
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(input, &plain); err != nil {
		return inv, td.Errorf(td.Invalid, "the input is not a JSON object")
	}
	for name, raw := range plain {
		var s string
		switch v := values[name].(type) {
		case string:
			s = v
		case float64, bool:
			s = string(raw) // as it was written: large numbers keep their digits
		default:
			continue
		}
		if strings.IndexByte(s, 0) >= 0 {
			return inv, td.Errorf(td.Invalid, "%s contains a NUL character", oneLine(name, 40))
		}
		if envForm.MatchString(name) {
			inv.Env = append(inv.Env, "INPUT_"+name+"="+s)
		}
	}
	slices.Sort(inv.Env)
	// JSON on one line begins with a brace, so no input can end the document early.
	inv.Shell = "{\n" + t.command + "\n} <<'SKILL_INPUT'\n" + line.String() + "\nSKILL_INPUT\n"
	return inv, nil
}

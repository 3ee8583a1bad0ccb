package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/tool"
)

// What a server may offer.
const (
	maxTools       = 500
	maxDescription = 8_000 // characters
	maxName        = 64    // the models' APIs': ^[a-zA-Z0-9_-]{1,64}$
	maxToolName    = 256
)

// Offer is a tool as a run is offered it. It is part of a run's record, without what the model is told, which
// stands there already: never rename a field.
type Offer struct {
	Name        string          `json:"name"` // for the model
	Server      string          `json:"server"`
	Tool        string          `json:"tool"` // for the server
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	ReadOnly    bool            `json:"read_only,omitempty"` // says the server
}

// LeftOut is a tool that is not offered, and why.
type LeftOut struct{ Tool, Why string }

// offers sorts what a server lists into what is offered, by name, and what is not. It depends on nothing but
// the list and the config, and not on the list's order.
func offers(s *Server, listed []*sdk.Tool) (good []Offer, bad []LeftOut) {
	leave := func(name, why string, args ...any) {
		bad = append(bad, LeftOut{cut(name, 100), fmt.Sprintf(why, args...)})
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(t *sdk.Tool) bool { return t == nil })
	slices.SortStableFunc(listed, func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range listed {
		twice := i > 0 && listed[i-1].Name == t.Name || i+1 < len(listed) && listed[i+1].Name == t.Name
		switch {
		case t.Name == "" || len(t.Name) > maxToolName:
			leave(t.Name, "its name is empty or longer than %d bytes", maxToolName)
			continue
		case !s.allows(t.Name):
			leave(t.Name, "the config does not allow it")
			continue
		case twice:
			leave(t.Name, "the server lists it twice")
			continue
		case len(good) == maxTools:
			leave(t.Name, "the server lists more than %d tools", maxTools)
			continue
		}
		schema, err := normalize(t.InputSchema)
		if err == nil {
			_, err = compile(schema)
		}
		if err != nil {
			leave(t.Name, "%s", err)
			continue
		}
		good = append(good, Offer{
			Server: s.Name, Tool: t.Name, Schema: schema, Description: describe(s, t),
			ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint,
		})
	}
	names := make([]string, len(good))
	for i, o := range good {
		names[i] = o.Tool
	}
	for i, name := range apiNames(s.Name, names) {
		good[i].Name = name
	}
	slices.SortFunc(good, func(a, b Offer) int { return cmp.Compare(a.Name, b.Name) })
	return good, bad
}

func describe(s *Server, t *sdk.Tool) string {
	text := cut(strings.TrimSpace(tool.Clean([]byte(t.Description))), maxDescription)
	if text == "" {
		return fmt.Sprintf("%s, a tool of the MCP server %s.", cut(tool.Clean([]byte(t.Name)), 100), s.Name)
	}
	return text
}

// apiNames are the names by which models call a server's tools, all different. A tool whose own name fits is
// called by it; of others that would be called the same, and of long ones, a hash of the name tells them apart.
func apiNames(server string, tools []string) []string {
	prefix := policy.ServerPrefix + server + "__"
	fit := make([]string, len(tools))
	users := map[string]int{}
	for i, t := range tools {
		fit[i] = prefix + apiSafe(t)
		users[fit[i]]++
	}
	out := make([]string, len(tools))
	taken := map[string]bool{}
	for i, t := range tools {
		if exact := fit[i] == prefix+t; len(fit[i]) <= maxName && (exact || users[fit[i]] == 1) {
			out[i] = fit[i]
			taken[fit[i]] = true
		}
	}
	for i, t := range tools {
		sum := sha256.Sum256([]byte(t))
		for digits := 8; out[i] == ""; digits++ { // more than 8 when one is named after the hash of another
			if name := hashed(fit[i], sum, digits); !taken[name] {
				out[i] = name
				taken[name] = true
			}
		}
	}
	return out
}

func hashed(name string, sum [sha256.Size]byte, digits int) string {
	return name[:min(len(name), maxName-1-digits)] + "_" + hex.EncodeToString(sum[:])[:digits]
}

// apiSafe has _ in place of each byte that a name may not have.
func apiSafe(s string) string {
	out := []byte(s)
	for i, c := range out {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			out[i] = '_'
		}
	}
	return string(out)
}

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bareMain is the floor: a loop that sends the conversation, reads the answer and does what it asks for.
// It stores nothing, checks nothing and shows nothing. Its arguments are the server's address and the
// workspace.
func bareMain(args []string) int {
	if err := bareLoop(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type bareMessage struct {
	Role    string      `json:"role"`
	Content []bareBlock `json:"content"`
}

type bareBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	For   string          `json:"tool_use_id,omitempty"`
	Out   string          `json:"content,omitempty"`
}

func bareLoop(url, dir string) error {
	messages := []bareMessage{{Role: "user", Content: []bareBlock{{Type: "text", Text: "do it"}}}}
	for {
		use, err := bareCall(url, messages)
		if err != nil || use.Name == "Complete" {
			return err
		}
		var in struct{ Path, Command string }
		if err := json.Unmarshal(use.Input, &in); err != nil {
			return err
		}
		var out []byte
		if use.Name == "Read" {
			out, err = os.ReadFile(filepath.Join(dir, in.Path))
		} else {
			cmd := exec.Command(shell(), "-c", in.Command)
			cmd.Dir = dir
			out, err = cmd.CombinedOutput()
		}
		if err != nil {
			return err
		}
		messages = append(messages, bareMessage{Role: "assistant", Content: []bareBlock{use}},
			bareMessage{Role: "user", Content: []bareBlock{{Type: "tool_result", For: use.ID, Out: string(out)}}})
	}
}

// bareCall sends the conversation and reads the tool call out of the stream.
func bareCall(url string, messages []bareMessage) (use bareBlock, err error) {
	body, err := json.Marshal(map[string]any{"model": "bare", "max_tokens": 1000, "stream": true, "messages": messages})
	if err != nil {
		return use, err
	}
	req, err := http.NewRequest(http.MethodPost, url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return use, err
	}
	req.Header.Set("X-Api-Key", "none")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return use, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return use, fmt.Errorf("the server answers %s", res.Status)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev struct {
			Type  string
			Block bareBlock `json:"content_block"`
			Delta struct {
				Input string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return use, err
		}
		switch ev.Type {
		case "content_block_start":
			use, use.Input = ev.Block, nil
		case "content_block_delta":
			use.Input = append(use.Input, ev.Delta.Input...)
		}
	}
	_, err = io.Copy(io.Discard, res.Body)
	return use, err
}

// shell is the one that the Bash tool uses.
func shell() string {
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return "/bin/sh"
}

package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

type readInput struct {
	Path   string `json:"path" alias:"file_path,filepath,filename,absolute_path" jsonschema:"the file, relative to the workspace or absolute" min:"1"`
	Offset int    `json:"offset,omitempty" jsonschema:"number of the first line to show, from 1" min:"1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many lines to show at most" min:"1"`
}

func readTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Read",
		Description: "Shows a text file with numbered lines. Shows at most 30000 characters; " +
			"use offset and limit to see the rest of a long file.",
	}, prepareRead, nil)
}

func prepareRead(_ context.Context, env *tool.Env, in readInput) (tool.Call, error) {
	rel, err := env.Root.Rel(in.Path)
	if err != nil {
		return tool.Call{}, err
	}
	return tool.Call{
		Effect: td.Pure, Title: title("Read", rel), Paths: env.Root.Reads(rel),
		Run: func(ctx context.Context) (td.ToolResult, error) {
			f, info, err := env.Root.Open(rel)
			if err != nil {
				return td.ToolResult{}, err
			}
			defer f.Close()
			size := info.Size() + 1 // most files are small
			if size == 1 {
				size = binaryProbe // some that are made as they are read say so too
			}
			r := bufio.NewReaderSize(f, int(min(size, 64<<10)))
			if start, _ := r.Peek(binaryProbe); isBinary(start) {
				return td.ToolResult{}, td.Errorf(td.Invalid, "%s is a binary file of %d bytes; it is not shown", rel, info.Size())
			}
			text, err := numbered(ctx, env.Secrets, r, max(in.Offset, 1), in.Limit)
			if err != nil {
				return td.ToolResult{}, fmt.Errorf("read %s: %w", rel, err)
			}
			return td.ToolResult{Content: text, Files: []string{rel}}, nil
		},
	}, nil
}

// binaryProbe is how much of a file is looked at to tell text from binary, as git does it.
const binaryProbe = 8000

func isBinary(start []byte) bool {
	return bytes.IndexByte(start[:min(len(start), binaryProbe)], 0) >= 0
}

// numbered shows lines from first on, with their numbers, as many as limit and MaxOutput allow. It reads
// no more of the file than it needs, and holds no more of it than it shows.
func numbered(ctx context.Context, secrets *redact.Redactor, r *bufio.Reader, first, limit int) (string, error) {
	var out strings.Builder
	chars, shown := 0, 0
	for n := 1; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		line, long, err := readLine(ctx, r)
		if errors.Is(err, io.EOF) {
			switch {
			case n == 1:
				return "(the file is empty)", nil
			case first >= n:
				return "", td.Errorf(td.Invalid, "offset %d is beyond the end: the file has %d lines", first, n-1)
			}
			return out.String(), nil
		}
		if err != nil {
			return "", err
		}
		if n < first {
			continue
		}
		if limit > 0 && shown == limit {
			fmt.Fprintf(&out, "[more lines follow; go on with offset %d]\n", n)
			return out.String(), nil
		}
		text := fmt.Sprintf("%6d\t%s", n, strings.ReplaceAll(secrets.Piece(tool.Clean(line), false, long), "\n", "\uFFFD"))
		size := utf8.RuneCountInString(text) + 1
		if chars+size > tool.MaxOutput {
			if shown > 0 {
				fmt.Fprintf(&out, "[cut at %d characters; go on with offset %d]\n", tool.MaxOutput, n)
				return out.String(), nil
			}
			text, long = string([]rune(text)[:tool.MaxOutput]), true
		}
		out.WriteString(text)
		if long {
			out.WriteString(" [the line goes on and is cut here]")
		}
		out.WriteByte('\n')
		chars += size
		shown++
	}
}

// readLine reads one line without its end. Of a line longer than MaxOutput characters only the
// beginning is kept.
func readLine(ctx context.Context, r *bufio.Reader) (line []byte, long bool, err error) {
	const most = 4 * tool.MaxOutput
	for {
		part, err := r.ReadSlice('\n')
		if room := most - len(line); len(part) > room {
			part, long = part[:room], true
		}
		line = append(line, part...)
		switch {
		case err == nil || err == io.EOF && len(line) > 0:
			line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			return line, long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
	}
}

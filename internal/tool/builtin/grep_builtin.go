package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// maxMultiline is the largest file that is searched across lines: it must be held whole.
const maxMultiline = 16 << 20

// builtin searches without help from another program.
func (s search) builtin(ctx context.Context, env *tool.Env, out *findings) error {
	return s.each(ctx, env, out, func(name string, _ fs.DirEntry) error { return s.file(ctx, env.Root, name, out) })
}

// each visits the files that are to be searched, until it is enough.
func (s search) each(ctx context.Context, env *tool.Env, out *findings, visit func(name string, d fs.DirEntry) error) error {
	return walk(ctx, env, s.base, func(name string, d fs.DirEntry) error {
		if out.full {
			return fs.SkipAll
		}
		within := name
		if s.base != "." && s.base != name {
			within = strings.TrimPrefix(name, s.base+"/")
		}
		if !d.Type().IsRegular() || !s.wants(within) {
			return nil
		}
		return visit(name, d)
	})
}

// tooLarge notes that a file is not searched across lines.
func (f *findings) tooLarge(name string) {
	f.note("%s is too large to be searched across lines", cleanPath(name))
}

// file searches one file. One that cannot be read, or is binary, is passed over.
func (s search) file(ctx context.Context, w *tool.Workspace, name string, out *findings) error {
	f, info, err := w.Open(name)
	if err != nil {
		return nil //nolint:nilerr // it went away, or may not be read
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, info.Size()), 64<<10) // it may grow without end
	if start, _ := r.Peek(binaryProbe); isBinary(start) {
		return nil
	}
	p := &printer{search: s, file: name, out: out}
	switch {
	case !s.Multiline:
		err = s.byLine(ctx, r, p)
	case info.Size() > maxMultiline:
		out.tooLarge(name)
		return nil
	default:
		err = s.across(r, p)
	}
	if err != nil {
		return err
	}
	p.end()
	return nil
}

// byLine holds one line at a time, and the few that may have to be shown before a match.
func (s search) byLine(ctx context.Context, r *bufio.Reader, p *printer) error {
	var before [][]byte // the lines just before, not shown yet
	after := 0          // lines still to be shown after a match
	for n := 1; ; n++ {
		line, _, err := readLine(ctx, r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", p.file, err)
		}
		more := true
		switch {
		case s.re.Match(line):
			for i, l := range before {
				p.line(n-len(before)+i, false, l)
			}
			before, after = before[:0], s.After
			more = p.line(n, true, line)
		case after > 0:
			after--
			more = p.line(n, false, line)
		case s.Before > 0:
			if len(before) == s.Before {
				before = before[1:]
			}
			before = append(before, line)
		}
		if !more {
			return nil
		}
	}
}

// across matches the whole text; every line that a match touches counts as matching.
func (s search) across(r io.Reader, p *printer) error {
	text, err := io.ReadAll(io.LimitReader(r, maxMultiline))
	if err != nil {
		return td.Errorf(td.Storage, "read %s: %w", p.file, err)
	}
	found := s.re.FindAllIndex(text, -1)
	if len(found) == 0 {
		return nil
	}
	p.matches = len(found)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	hit := make([]bool, len(lines))
	n, start := 0, 0 // the line that holds the offset reached, and where it begins
	for _, m := range found {
		for n < len(lines)-1 && start+len(lines[n])+1 <= m[0] {
			start += len(lines[n]) + 1
			n++
		}
		hit[n] = true
		for k, at := n, start; k < len(lines)-1 && at+len(lines[k])+1 < m[1]; k++ {
			at += len(lines[k]) + 1
			hit[k+1] = true
		}
	}
	last := -1 // the newest match
	for i := range lines {
		if hit[i] {
			last = i
		}
		show := hit[i] || last >= 0 && i-last <= s.After
		for k := i + 1; !show && k <= i+s.Before && k < len(lines); k++ {
			show = hit[k]
		}
		if show && !p.line(i+1, hit[i], bytes.TrimSuffix(lines[i], []byte("\r"))) {
			return nil
		}
	}
	return nil
}

// printer shows what was found in one file, in the form asked for.
type printer struct {
	search
	file    string
	out     *findings
	last    int // number of the newest line shown
	lines   int // how many lines matched
	matches int // how many matches there are, across lines
}

// line takes one line that is to be shown; false says that no more are needed.
func (p *printer) line(n int, match bool, text []byte) bool {
	if match {
		p.lines++
	}
	switch p.Mode {
	case "files":
		return false
	case "count":
		return true
	}
	if p.Before+p.After > 0 && (p.last == 0 || n != p.last+1) {
		p.out.separate()
	}
	p.last = n
	mark := byte('-')
	if match {
		mark = ':'
	}
	return p.out.add(p.out.showLine(p.file, n, mark, text))
}

func (p *printer) end() {
	switch {
	case p.lines == 0:
	case p.Mode == "files":
		p.out.add(cleanPath(p.file))
	case p.Mode == "count" && p.Multiline:
		p.out.add(fmt.Sprintf("%s:%d", cleanPath(p.file), p.matches))
	case p.Mode == "count":
		p.out.add(fmt.Sprintf("%s:%d", cleanPath(p.file), p.lines))
	}
}

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A git that cleans up reads every object that is new, whether something refers to it or not, and stops at one that it cannot read: nothing is cleaned up from then on. So an object of a command is
// kept only if it has the form that git's own fsck demands, of whatever version. Objects that the repository has already are not looked at.
//
// Two things are not demanded. What fsck only warns of or mentions, and every git reads, is in old histories that a command may fetch: zero-padded and unusual modes, a NUL in a message, a tag without tagger or
// with the name that no ref could have. And of a pack, which is how histories come, who did something and when may be written as old tools did: fsck calls it an error, but git
// cleans up, shows and checks out such commits. What is in the content of files (.gitmodules) is never looked at.

// errOldForm says that an object is one that git reads, though its fsck complains: who made it, or when, is not as git writes it.
var errOldForm = errors.New("who made it, or when, is not as git writes it")

// wellFormed fails for an object that git's fsck would call broken, with errOldForm if that is all.
func wellFormed(kind string, body []byte, digits int) error {
	switch kind {
	case "tree":
		return wellFormedTree(body, digits/2)
	case "commit", "tag":
		headers, err := headersOf(body)
		if err != nil {
			return err
		}
		form := commitForm
		if kind == "tag" {
			form = tagForm
		}
		found := form.FindStringSubmatch(headers)
		if found == nil || len(found[1]) != digits || kind == "tag" && len(body) < digits+leastTag {
			return fmt.Errorf("it is no %s", kind)
		}
		if kind == "commit" {
			return wellFormedPeople(found[2], found[3], digits)
		}
		if who, is := strings.CutPrefix(headers[len(found[0]):], "tagger "); is {
			return wellFormedIdent(who)
		}
	}
	return nil
}

// What commits and tags begin with. Of a commit with several authors git takes the first.
var (
	commitForm = regexp.MustCompile(`\Atree ([0-9a-f]+)\n((?:parent [0-9a-f]+\n)*)((?:author .*\n)+committer .*\n)`)
	tagForm    = regexp.MustCompile(`\Aobject ([0-9a-f]+)\ntype (?:blob|tree|commit|tag)\ntag .+\n`)
)

// leastTag is what a tag has beside the name of its object, or git takes it for broken.
const leastTag = 24

// headersOf are the lines before the message. They end with one that is empty, or with the object.
func headersOf(body []byte) (string, error) {
	headers := body
	if end := bytes.Index(body, []byte("\n\n")); end >= 0 {
		headers = body[:end+1]
	}
	if len(headers) == 0 || headers[len(headers)-1] != '\n' || bytes.IndexByte(headers, 0) >= 0 {
		return "", errors.New("its headers have no end, or a NUL")
	}
	return string(headers), nil
}

// wellFormedPeople looks at the parents of a commit, and at who made it.
func wellFormedPeople(parents, people string, digits int) error {
	for line := range strings.Lines(parents) {
		if len(line) != len("parent \n")+digits {
			return errors.New("it is no commit")
		}
	}
	var err error
	lines := strings.SplitAfter(people, "\n")
	for _, line := range lines[:len(lines)-1] {
		_, who, _ := strings.Cut(line, " ")
		if werr := wellFormedIdent(who); werr != nil {
			err = werr
		}
	}
	if len(lines) != len([]string{"author", "committer", ""}) {
		err = errOldForm
	}
	return err
}

// identForm is who did something, and when.
var identForm = regexp.MustCompile(`\A[^<>\n]* <[^<>\n]*> (0|[1-9][0-9]*) [+-][0-9]{4}\n`)

func wellFormedIdent(who string) error {
	found := identForm.FindStringSubmatch(who)
	if found == nil {
		return errOldForm
	}
	if _, err := strconv.ParseInt(found[1], 10, 64); err != nil {
		return errOldForm
	}
	return nil
}

// wellFormedTree fails for a tree that git cannot read or check out: its entries must be in git's order, each of a kind that git has, and under a name that is there once and leads neither out of its folder nor
// into git's own on any system.
func wellFormedTree(body []byte, size int) error {
	seen := map[string]bool{}
	before := ""
	for len(body) > 0 {
		entry, rest, ok := bytes.Cut(body, []byte{0})
		octal, name, is := strings.Cut(string(entry), " ")
		if !ok || !is || len(rest) < size || len(bytes.Trim(rest[:size], "\x00")) == 0 {
			return errors.New("it is no tree")
		}
		of := typeOf(octal)
		if of == 0 {
			return fmt.Errorf("a tree has an entry of mode %.20q", octal)
		}
		if name == "" || name == "." || name == ".." || seen[name] || strings.Contains(name, "/") || isDotGit(name) || of != unix.S_IFREG && isGitmodules(name) {
			return fmt.Errorf("a tree has the name %q, or has it twice", name)
		}
		seen[name] = true
		key := name
		if of == unix.S_IFDIR {
			key += "/"
		}
		if key < before {
			return fmt.Errorf("a tree has the name %q out of order", name)
		}
		before, body = key, rest[size:]
	}
	return nil
}

// typeOf is the type of a tree's entry by its mode; 0 for one that git does not have. What a mode says beside its type git does not care for, nor for zeros before it.
func typeOf(octal string) uint64 {
	mode, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || strings.Trim(octal, "01234567") != "" {
		return 0
	}
	switch of := mode &^ 0o7777; of {
	case unix.S_IFDIR, unix.S_IFREG, unix.S_IFLNK, modeLink:
		return of
	}
	return 0
}

// What Windows and NTFS take for .git and .gitmodules; a backslash separates folders there.
var (
	ntfsDotGit     = regexp.MustCompile(`(?i)(?:\A|\\)(?:\.git|git~1)[ .]*(?:[\\:]|\z)`)
	ntfsGitmodules = regexp.MustCompile(`(?i)(?:\A|\\)(?:\.gitmodules|gitmod~[1-4]|g?i?7?e?b?a?~[1-9][0-9]*)[ .]*(?::|\z)`)
)

// isDotGit and isGitmodules report whether a name is that one on any system.
func isDotGit(name string) bool {
	return ntfsDotGit.MatchString(name) || strings.EqualFold(hfsName.Replace(name), ".git")
}

func isGitmodules(name string) bool {
	return ntfsGitmodules.MatchString(name) || strings.EqualFold(hfsName.Replace(name), ".gitmodules")
}

// hfsName drops the characters that HFS+ ignores in names.
var hfsName = strings.NewReplacer(
	"\u200c", "", "\u200d", "", "\u200e", "", "\u200f", "", "\u202a", "", "\u202b", "", "\u202c", "", "\u202d", "", "\u202e", "",
	"\u206a", "", "\u206b", "", "\u206c", "", "\u206d", "", "\u206e", "", "\u206f", "", "\ufeff", "",
)

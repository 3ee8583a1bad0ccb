// Package query answers questions about a loop (K-5). Those that people ask again and again are answered from what
// is recorded: which files it changed, its state, what it cost, how far it is, what it said last. For the others it
// readies what a small model needs to answer them. It is pure: it reads no file, asks no clock and calls nobody.
package query

import (
	"strings"
	"unicode"
)

// Kind is what a question is about.
type Kind string

// The kinds.
const (
	Free     Kind = "free"     // none of these: a model has to answer it
	Files    Kind = "files"    // which files were changed
	State    Kind = "state"    // state and phase
	Cost     Kind = "cost"     // what was spent
	Progress Kind = "progress" // what is done and what is left, by its own list
	Words    Kind = "words"    // what it said last
)

// MaxQuestion bounds a question, in bytes.
const MaxQuestion = 16 << 10

// vocabulary are the words that make a question one of a kind.
var vocabulary = map[Kind][]string{
	Files: {
		"file", "files", "changed", "change", "changes", "modified", "modify", "touched", "edited", "edit", "edits", "written", "wrote",
		"created", "diff",
	},
	State:    {"state", "status", "phase", "step", "doing", "running", "iteration", "turn", "waiting", "blocked"},
	Cost:     {"cost", "costs", "spent", "spend", "spending", "tokens", "token", "budget", "money", "dollars", "price", "expensive"},
	Progress: {"progress", "todo", "todos", "left", "remaining", "done", "list"},
	Words:    {"last", "words", "word", "say", "said", "message", "answer", "text"},
}

// fillers are the words that make no difference.
var fillers = wordSet(`a about an and any are at been by currently did do does ever far for has have how i in is it its
	just loop many me much my newest now of on or please right show so still task tell that the them there these they this those
	to today up us was were what what's whats which who with you your yours`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// KindOf says what a question is about. It is one of a kind only if every word of it that makes a difference is in
// the vocabulary of that kind alone, and there is one: "which files did you change" is about files, "why did you change
// this file" is not.
func KindOf(question string) Kind {
	if len(question) > MaxQuestion {
		return Free
	}
	found := map[Kind]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(question), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	}) {
		if fillers[w] {
			continue
		}
		kind := kindOfWord(w)
		if kind == Free {
			return Free
		}
		found[kind] = true
	}
	if len(found) != 1 {
		return Free
	}
	for kind := range found {
		return kind
	}
	return Free
}

func kindOfWord(word string) Kind {
	for kind, words := range vocabulary {
		for _, w := range words {
			if w == word {
				return kind
			}
		}
	}
	return Free
}

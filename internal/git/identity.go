package git

import (
	"cmp"
	"context"
	"os"
	account "os/user"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Person is who commits.
type Person struct{ Name, Email string }

// PersonOf is the user as git would know them in a folder: by the environment of this process, else by their settings. The zero value if it would not.
func PersonOf(ctx context.Context, dir string) Person {
	author, _ := people(ctx, dir)
	return author
}

// identity is the user's, as variables that tell git. Nil if git would know only a part of it.
func identity(ctx context.Context, dir string) []string {
	author, committer := people(ctx, dir)
	if author == (Person{}) || committer == (Person{}) {
		return nil
	}
	return []string{
		"GIT_AUTHOR_NAME=" + author.Name, "GIT_AUTHOR_EMAIL=" + author.Email, "GIT_COMMITTER_NAME=" + committer.Name, "GIT_COMMITTER_EMAIL=" + committer.Email,
	}
}

// people are who a commit in a folder is by. Whoever gives one of the two names means both; whoever gives an address alone is called as the machine calls them.
func people(ctx context.Context, dir string) (author, committer Person) {
	said, err := configs.of(ctx, siteOf(call{dir: dir}))
	if err != nil {
		return Person{}, Person{}
	}
	told := personal(ctx, said)
	of := func(role, other string) Person {
		env := func(role, part string) string {
			return os.Getenv("GIT_" + strings.ToUpper(role) + "_" + strings.ToUpper(part))
		}
		p := Person{
			Name:  cmp.Or(env(role, "name"), told(role+".name"), told("user.name"), env(other, "name"), machineName(told)),
			Email: cmp.Or(env(role, "email"), told(role+".email"), told("user.email"), os.Getenv("EMAIL"), env(other, "email")),
		}
		if !nameable(p.Name) || !nameable(p.Email) {
			return Person{}
		}
		return p
	}
	return of("author", "committer"), of("committer", "author")
}

// machineName is the full name of the user, as the machine's list of users has it, which is what git takes if nobody says another. Empty: git would take none.
func machineName(told func(key string) string) string {
	if told("user.useconfigonly") != "" && !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(told("user.useconfigonly"))) {
		return ""
	}
	u, err := lookUp()
	if err != nil {
		return ""
	}
	login := u.Username
	if login != "" {
		login = strings.ToUpper(login[:1]) + login[1:]
	}
	return strings.TrimSpace(strings.ReplaceAll(u.Name, "&", login)) // as finger has it
}

var lookUp = account.Current

// personal looks a setting up as the person's own git would: first in the settings of the environment, then in the repository's, then in the person's files.
func personal(ctx context.Context, said *settings) func(key string) string {
	told, _ := configs.told(ctx) // of those that cannot be read git would know nothing
	all := slices.Concat(said.person, said.local, told)
	return func(key string) (value string) {
		for _, one := range all {
			if one.key == key {
				value = one.value
			}
		}
		return value
	}
}

// mostOfAName bounds a name or an address.
const mostOfAName = 256

// nameable reports whether git takes a text for a name or an address, and whoever reads it can.
func nameable(text string) bool {
	return strings.Trim(text, " .,:;<>\"\\'") != "" && len(text) <= mostOfAName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

package redact

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
)

// The keys below are put together here, so that no scanner takes this file for a leak.
func TestShapes(t *testing.T) {
	x := func(n int) string { return strings.Repeat("aB3dE6gH9j", n/10+1)[:n] }
	for name, c := range map[string]struct{ in, want string }{
		"openai project":   {"k=sk-" + "proj-" + x(40), "k=[redacted]"},
		"openai old":       {"sk-" + x(48), "[redacted]"},
		"anthropic":        {"sk-" + "ant-api03-" + x(30), "[redacted]"},
		"hugging face":     {"hf" + "_" + x(34), "[redacted]"},
		"github app":       {"ghs" + "_" + x(36), "[redacted]"},
		"gitlab runner":    {"glrt" + "-" + x(20), "[redacted]"},
		"gitlab":           {"glpat" + "-" + x(20), "[redacted]"},
		"npm":              {"//registry/:_authToken=npm" + "_" + x(36), "//registry/:_authToken=[redacted]"},
		"npm alone":        {"npm" + "_" + x(36), "[redacted]"},
		"registry":         {"//registry/:_authToken=" + x(20), "//registry/:_authToken=[redacted]"},
		"sendgrid":         {"SG" + "." + x(22) + "." + x(43), "[redacted]"},
		"gcp client":       {"GOCSPX" + "-" + x(28), "[redacted]"},
		"digitalocean":     {"dop" + "_v1_" + strings.Repeat("0a", 32), "[redacted]"},
		"npm variable":     {"//registry/:_authToken=${NPM_TOKEN}", "//registry/:_authToken=${NPM_TOKEN}"},
		"pypi":             {"pypi" + "-AgEIcHlwaS5vcmc" + x(40), "[redacted]"},
		"slack app":        {"xapp" + "-1-" + x(30), "[redacted]"},
		"slack webhook":    {"https://hooks.slack.com/services/T0/B0/" + x(24), "https://hooks.slack.com/services/[redacted]"},
		"stripe":           {"sk_" + "live_" + x(24), "[redacted]"},
		"stripe hook":      {"whsec" + "_" + x(32), "[redacted]"},
		"aws secret":       {"aws_secret_access_key = " + x(40), "aws_secret_access_key = [redacted]"},
		"aws json":         {`"SecretAccessKey": "` + x(40) + `"`, `"SecretAccessKey": "[redacted]"`},
		"gcp key":          {"AIza" + x(35), "[redacted]"},
		"gcp token":        {"ya29" + "." + x(60), "[redacted]"},
		"azure":            {"AccountName=a;AccountKey=" + x(86) + "==;", "AccountName=a;AccountKey=[redacted];"},
		"postgres":         {"postgres://app:hunter2@db:5432/x", "postgres://app:[redacted]@db:5432/x"},
		"redis":            {"redis://:hunter2@cache", "redis://:[redacted]@cache"},
		"mysql":            {"app:hunter2@tcp(db:3306)/x", "app:[redacted]@tcp(db:3306)/x"},
		"libpq":            {"host=db user=app password=hunter2 dbname=x", "host=db user=app password=[redacted] dbname=x"},
		"ado":              {"Server=db;Database=x;User Id=app;Password=hunter2;", "Server=db;Database=x;User Id=app;Password=[redacted];"},
		"openssh key":      {"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----", "[redacted]"},
		"several in a row": {"ghp" + "_" + x(36) + " glpat" + "-" + x(20), "[redacted] [redacted]"},
		"in JSON":          {`{"k":"ghp` + "_" + x(36) + `"}`, `{"k":"[redacted]"}`},
		"in a variable":    {"TOKEN=ghp" + "_" + x(36), "TOKEN=[redacted]"},
	} {
		if got := New().String(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What work consists of must stay readable.
func TestShapesOfNoSecret(t *testing.T) {
	seeded := rand.New(rand.NewPCG(1, 2))
	picture := make([]byte, 64<<10)
	for i := range picture {
		picture[i] = byte(seeded.Uint32())
	}
	for name, in := range map[string]string{
		"commit":            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"sha256":            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"go.sum":            "golang.org/x/sys v0.1.0 h1:kunALQeHf1/185U1i0GOB/fy1IPRDDpuoOOqRReG57U=",
		"integrity":         `"integrity": "sha512-oQ0rmPYlEp4OlmjDL4YkBQHZR2V6GFbKkmH0RrJ0fO8mVbVqUlYHkvxyxPdnqFmXRVoGOQkNcQe8Xcq+XxJZ4g=="`,
		"uuid":              "123e4567-e89b-12d3-a456-426614174000",
		"picture":           "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture),
		"public key":        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SaG6UOoqkLsabgH5C9okWi0dh2l9GKJl me@host",
		"certificate":       "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"public key block":  "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
		"css":               "sk-folding-cube-grid-animation-container { color: red }",
		"sklearn":           "task-queue-sk-learn and disk-usage",
		"code":              "password := os.Getenv(\"PASSWORD\")",
		"flag":              "mysql --user=app --password=$DB_PASSWORD",
		"url with port":     "http://localhost:8080/a@b",
		"git address":       "git@github.com:owner/repo.git",
		"url of variables":  "postgres://$USER:$PASSWORD@db/x",
		"basic words":       "basic understanding of internationalisation",
		"bearer":            "bearer of news",
		"import":            `import "github.com/owner/repo_with_long_name"`,
		"secret by name":    "secret_access_key: see the vault",
		"environment names": "AWS_SECRET_ACCESS_KEY and ANTHROPIC_API_KEY must be set",
	} {
		if got := New().String(in); got != in {
			t.Errorf("%s: %.200q became %.200q", name, in, got)
		}
	}
}

func TestJSON(t *testing.T) {
	r := New(`quo"ted<secret>`, "123456789")
	for _, c := range []struct{ name, in, json, known string }{
		{"nothing", `{"a": 1}`, `{"a": 1}`, `{"a": 1}`},
		{"escaped value", `{"a":"x quo\"ted\u003csecret\u003e"}`, `{"a":"x [redacted]"}`, `{"a":"x [redacted]"}`},
		{"otherwise escaped", `["quo\"ted<secret>"]`, `["[redacted]"]`, `["[redacted]"]`},
		{"numbers stay", `[123456789]`, `[123456789]`, `[123456789]`},
		{"after a newline", `"\nsk-ant-api03-abcdefgh"`, `"\n[redacted]"`, `"\nsk-ant-api03-abcdefgh"`},
		{"no JSON", `{`, `{`, `{`},
	} {
		if got := string(r.JSON([]byte(c.in))); got != c.json {
			t.Errorf("%s: JSON gives %s, want %s", c.name, got, c.json)
		}
		if got := string(r.Known([]byte(c.in))); got != c.known {
			t.Errorf("%s: Known gives %s, want %s", c.name, got, c.known)
		}
	}
}

// output is like that of a build: paths, hashes, words.
var output = bytes.Repeat([]byte("ok  \tgithub.com/owner/repo/internal/pkg\t0.123s\tcoverage: 71.4% sha256:e3b0c44298fc1c149afbf4c8996fb924\nerror at https://example.com/a?b=c: basic check failed\n"), 1000)

func BenchmarkCopy(b *testing.B) {
	b.SetBytes(int64(len(output)))
	for b.Loop() {
		bytes.Clone(output)
	}
}

func BenchmarkOutput(b *testing.B) {
	r := New("topsecretvalue")
	b.SetBytes(int64(len(output)))
	for b.Loop() {
		r.Bytes(output)
	}
}

package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		"groq":             {"gsk" + "_" + x(52), "[redacted]"},
		"xai":              {"key xai" + "-" + x(80), "key [redacted]"},
		"perplexity":       {"pplx" + "-" + x(48), "[redacted]"},
		"nvidia":           {"nvapi" + "-" + x(64), "[redacted]"},
		"replicate":        {"r8" + "_" + x(37), "[redacted]"},
		"docker":           {"docker login -p dckr" + "_pat_" + x(27), "docker login -p [redacted]"},
		"shopify":          {"shpat" + "_" + strings.Repeat("0a", 16), "[redacted]"},
		"vault":            {"hvs" + "." + x(24), "[redacted]"},
		"vault batch":      {"VAULT=hvb" + "." + x(90), "VAULT=[redacted]"},
		"telegram":         {"bot 123456789:AA" + x(33) + " says", "bot [redacted] says"},
		"telegram address": {"https://api.telegram.org/bot", "https://api.telegram.org/bot"},
		"discord":          {"M" + x(23) + ".GaBcDe." + x(38), "[redacted]"},
		"discord webhook":  {"https://discord.com/api/webhooks/123456789/" + x(68), "https://discord.com/api/webhooks/123456789/[redacted]"},
		"age":              {"AGE-SECRET-" + "KEY-1" + strings.Repeat("Q0", 29), "[redacted]"},
		"linear":           {"lin_" + "api_" + x(40), "[redacted]"},
		"terraform":        {x(14) + ".atlasv1." + x(60), "[redacted]"},
		"tailscale":        {"tskey" + "-auth-" + x(12) + "-" + x(32), "[redacted]"},
		"atlassian":        {"ATATT" + "3x" + x(180), "[redacted]"},
		"rubygems":         {"rubygems" + "_" + strings.Repeat("0a", 24), "[redacted]"},
		"supabase":         {"sbp" + "_" + strings.Repeat("0a", 20), "[redacted]"},
		"databricks":       {"dapi" + strings.Repeat("0a", 16), "[redacted]"},
		"slack rotating":   {"xoxe" + ".xoxp-1-" + x(40), "[redacted]"},
		"mailgun":          {"key" + "-" + strings.Repeat("0a", 16), "[redacted]"},
		"twilio":           {"SID SK" + strings.Repeat("0a", 16), "SID [redacted]"},
		"vercel":           {"vercel_" + "blob_rw_" + x(30), "[redacted]"},
		"doppler":          {"dp" + ".pt." + x(43), "[redacted]"},
		"pulumi":           {"pul" + "-" + strings.Repeat("0a", 20), "[redacted]"},
		"tavily":           {"tvly" + "-" + x(32), "[redacted]"},
		"planetscale":      {"pscale" + "_tkn_" + x(43), "[redacted]"},
		"fly":              {"FlyV1 " + "fm2_" + x(60), "FlyV1 [redacted]"},
		"second line":      {"plain\nghp" + "_" + x(36) + "\nplain", "plain\n[redacted]\nplain"},
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
		"go call chain":     "a.bcdefg.hijk and MessageHandlerOfTheQueue.handle.something()",
		"time of day":       "12345678:AAA and 10:00:00",
		"css classes":       "class=gsk_button xai-wrapper hvs.x shpat_x dapi_call npm_config_cache",
		"environment names": "AWS_SECRET_ACCESS_KEY and ANTHROPIC_API_KEY must be set",
	} {
		if got := New().String(in); got != in {
			t.Errorf("%s: %.200q became %.200q", name, in, got)
		}
	}
}

// assigned are values that are given to names of secrets.
var assigned = []string{
	"password=|hunter2|", "PASSWORD=|hunter2|", "DB_PASSWORD=|S3cret!pw|", "DB_PASSWORD=|Tr0ub4dor&3xyz|\nNEXT=1", "export PASSWORD=|Sup3rman;cd34,ef|", "password=|hunter2|; echo", "?password=|hunter2|&x=1", `password: "|correct-horse-9|"`, "passwd:|s3cr3tpw|", "pwd = |hunter2|",
	`"password": "|hunter2|"`, `{\"password\":\"|hunter2|\"}`, "curl --password |hunter2x| x", "--token=|abcd1234efgh|", `token := "|abcd1234efgh|"`,
	"api_key=|0123456789abcdef|&x=1", "X-Api-Key: |0123456789abcdef|", "x-api-key:|a1b2c3d4e5|", `apiKey: '|a1b2c3d4e5|'`, "client_secret=|Zm9vYmFyYmF6cXV4Zm9v|",
	"?access_token=|ya1b2c3d4e5|&y", "secret: |wJalrXUtnFEMIK7MDENG|", "SECRET_KEY_BASE=|0a1b2c3d4e5f|", "PGPASSWORD=|hunter2|", "dbPassword: |hunter2|", "password=|Tr0ub4dor&3|",
	"password=|hzCueQpBenQt|", `PASSWORD="|hzCueQpBenQt|"`, "password: |kqjxzvwplm|", "db.password=|QwErTyUiOp|", "MYSQL_ROOT_PASSWORD=|rootrootroot|", "PGPASSWORD=|zebra|",
	"client_secret=|AbCdEfGhIjKlMnOp|", `secret_key = "|zyxwvutsrqponm|"`, "password=|1234567890|", "password=|a1b2c3|", "<password>|cs1jZ43Kjr|</password>",
	"<db.password>|zebra|</db.password>", "machine x login y password |z|", "machine example.org\n  login ada\n  password |correct|\n", "default login ada password |correct|",
	"mysql --password |zebra| x", "https://example.org/?password=|zebra|&x", "export PGPASSWORD=|zebra|; psql", `password: "|1234567890|"`,
}

func TestAssignments(t *testing.T) {
	for _, c := range assigned {
		parts := strings.Split(c, "|")
		if len(parts) != 3 {
			continue
		}
		in := strings.Join(parts, "")
		if strings.Contains(parts[1], "&") { // a value ends there
			if got := New().String(in); strings.Contains(got, "Tr0ub4dor") {
				t.Errorf("%q became %q", in, got)
			}
			continue
		}
		if got, want := New().String(in), parts[0]+"[redacted]"+parts[2]; got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{
		"password = getPassword()", "password = getPassword2()", "password := os.Getenv(\"PASSWORD1\")", "password=${DB_PASSWORD1}", "password=$1",
		"password: String,", "password: z.string().min(8)", "token: u64", "token = next(tokens)", "max_tokens: 16000", "tokens=123456", "token=12345678",
		"the password: it must have 8 characters", "Password: ", "password=user.password", "password=self.config.db2.password", "password: {{ .Values.password1 }}",
		"secret: /run/secrets/db1", "secret = vault://kv/data/db1", "password: <your-password-1>", "API_KEY=YOUR_API_KEY_1", "if token == token1abc {",
		"std::token::Token2Kind", "token: https://example.com/oauth2/token", "pageToken=CAUQAA12", "nextPageToken: abc123def", "password-file=/run/x1y2z3",
		"passwords=hunter2", "password: required", `"password": "string"`, "token=*******1", "password=[redacted]", "secretName: db-credentials",
		"csrf_token: a1b2c3d4", "CancellationToken=source1token", "func (t *Token) String() string { return tokens[t1] }", "a --token-file x1y2z3w4",
		"password=None", "password: string", "password=$PASS", "password=<your password>", "password: {{ .Values.password }}", "password=null", `password="changeme"`,
		"login(user, password=passwd)", "connect(password=passwd,\n", "password = userPassword", "password: SecretStr", "Password: CharField", "password=args.password", "password=xxxxxx",
		"password=your-password", "<password>string</password>", "<password>${PASSWORD}</password>", "List<Password>names", "password=1", "password: 8", "secret: zebra", "token=zebra",
		"machine learning and a password manager", "please login with a password first", "client_secret=secretName", `"password": "Passwort"`, "password=user_password", "password = strengths",
		"ask for a password and wait", "key-value", "SK and PASK", "PWD=changed", "machine string\n\tlogin string\n\tpassword string", "type=password name=password",
		"secret santa 2024", "token ring 802.5", "password manager v1.2.3", "// secret: see README2",
	} {
		if got := New().String(in); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// mostFalse bounds how many values in this repository's own text are taken for secrets. Those that are now are examples of passwords.
const mostFalse = 0

// What is taken out of this repository's own code and documents is nothing that a model would need to work on it.
func TestAssignmentsInOwnText(t *testing.T) {
	var taken []string
	for _, root := range []string{"../../internal", "../../cmd", "../../docs", "../../README.md", "../../CHANGELOG.md", "../../ARCHITECTURE.md"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") && (!strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go")) {
				return err
			}
			text, err := os.ReadFile(path)
			for _, s := range join(appendShapes(nil, text)) {
				taken = append(taken, fmt.Sprintf("%s: %q", path, text[max(0, s.from-30):s.to]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(taken) > mostFalse {
		t.Errorf("%d values, want at most %d:\n%s", len(taken), mostFalse, strings.Join(taken, "\n"))
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

// against reports how many times as long as something simpler a benchmark took.
func against(b *testing.B, name string, simple func()) {
	const rounds = 200
	start := time.Now()
	for range rounds {
		simple()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/(float64(time.Since(start))/rounds), name)
}

// BenchmarkOutput prints how it compares with copying the text, and with looking for one value as it is.
func BenchmarkOutput(b *testing.B) {
	const value = "topsecretvalue-of-a-usual-length-0123456789"
	for name, text := range map[string][]byte{
		"build": output,
		"prose": bytes.Repeat([]byte("an ordinary line of a transcript, with words and 123 numbers\n"), 2000),
		"json":  bytes.Repeat([]byte(`{"path":"internal\/redact","text":"one line\nanother \"line\"\n","n":12}`+"\n"), 2000),
	} {
		b.Run(name, func(b *testing.B) {
			r, into := New(value, "another-known-value"), make([]byte, len(text))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Bytes(text)
			}
			against(b, "x-copy", func() { copy(into, text) })
			against(b, "x-contains", func() { bytes.Contains(text, []byte(value)) })
		})
	}
}

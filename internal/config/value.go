package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// Size is a number of bytes, written like 10MiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}

func parseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil // no unit changes it
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("want a size like 10MiB")
}

// parseDuration reads Go's durations and days, like 30s, 1h30m or 7d.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("want a time like 30s, 5m or 24h")
	}
	if d < 0 {
		return 0, fmt.Errorf("must not be negative")
	}
	return d, nil
}

// formatDuration leaves out the zero parts that time.Duration's String prints.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func kindOf(ptr any) string {
	switch ptr.(type) {
	case *int, *json.Number:
		return "number"
	case *time.Duration:
		return "time"
	case *[]time.Duration:
		return "list of times"
	case *Size:
		return "size"
	case *td.Money:
		return "dollars"
	case *td.Tokens:
		return "tokens"
	case *bool:
		return "true or false"
	default:
		return "text"
	}
}

// setText sets the key from text, as a variable or a flag has it.
func (k Key) setText(c *Config, text string) error {
	if ptr, ok := k.field(c).(*[]time.Duration); ok {
		text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "["), "]")
		var list []time.Duration
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			d, err := parseDuration(part)
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		*ptr = list
		return nil
	}
	return k.setScalar(c, text)
}

func (k Key) setScalar(c *Config, text string) error {
	switch ptr := k.field(c).(type) {
	case *int:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("want a number")
		}
		if n < 0 {
			return fmt.Errorf("must not be negative")
		}
		*ptr = n
	case *json.Number:
		text = strings.TrimSpace(text)
		if _, err := strconv.ParseFloat(text, 64); text != "" && (err != nil || !json.Valid([]byte(text))) {
			return fmt.Errorf("want a number like 0.5")
		}
		*ptr = json.Number(text)
	case *bool:
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true", "yes", "on", "1":
			*ptr = true
		case "false", "no", "off", "0":
			*ptr = false
		default:
			return fmt.Errorf("want true or false")
		}
	case *time.Duration:
		d, err := parseDuration(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		*ptr = d
	case *td.Money:
		n, err := td.ParseDollars(text)
		if err != nil {
			return err
		}
		*ptr = n
	case *td.Tokens:
		n, err := td.ParseTokens(text)
		if err != nil {
			return err
		}
		*ptr = n
	case *Size:
		n, err := parseSize(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		*ptr = n
	case *string:
		if len(k.Enum) > 0 && !slices.Contains(k.Enum, text) {
			return fmt.Errorf("want %s, not %q", strings.Join(k.Enum, " or "), clip(text))
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("must not hold control characters")
		}
		*ptr = text
	default:
		return fmt.Errorf("want a %s", kindOf(ptr))
	}
	return nil
}

func format(ptr any) string {
	switch p := ptr.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *bool:
		return strconv.FormatBool(*p)
	case *time.Duration:
		return formatDuration(*p)
	case *Size:
		return p.String()
	case *td.Money:
		return strconv.FormatFloat(p.Dollars(), 'f', -1, 64)
	case *td.Tokens:
		return p.Short()
	case *[]time.Duration:
		parts := make([]string, len(*p))
		for i, d := range *p {
			parts[i] = formatDuration(d)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *json.Number:
		return cmp.Or(p.String(), `""`)
	case *string:
		return quote(*p)
	default:
		return ""
	}
}

// quote leaves plain words bare, as a person would write them in YAML.
func quote(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && r != '/' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && strings.IndexFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/' }) == 0
	if plain && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on"}, strings.ToLower(s)) || s == CassetteOff {
		return s
	}
	return strconv.Quote(s)
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

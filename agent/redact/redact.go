package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// mark replaces removed text.
const mark = "[redacted]"

// least is the minimum length of a known value: a shorter value would match parts of many words.
const least = 6

// Redactor removes known values and text that looks like a secret.
type Redactor struct {
	values []string
	users  *regexp.Regexp // nil: none
	names  map[string]string
}

// New returns a Redactor for these values, and for users by name, each with its replacement.
func New(values []string, users map[string]string) *Redactor {
	r := &Redactor{names: users}
	for _, v := range values {
		if len(v) >= least {
			r.values = append(r.values, v)
		}
	}
	// The longest first, so that no part of a longer value is left.
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	var quoted []string
	for name := range users {
		if name != "" {
			quoted = append(quoted, regexp.QuoteMeta(name))
		}
	}
	if len(quoted) > 0 {
		slices.SortFunc(quoted, func(a, b string) int { return len(b) - len(a) })
		r.users = regexp.MustCompile(`(^|[^A-Za-z0-9_-])(` + strings.Join(quoted, "|") + `)($|[^A-Za-z0-9_-])`)
	}
	return r
}

// forms match secrets by their form. Group 1, if present, is kept.
var forms = []*lazyregexp.Regexp{
	lazyregexp.New(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	lazyregexp.New(`AGE-SECRET-KEY-1[A-Za-z0-9]+`),
	lazyregexp.New(`\bhs[a-z]_[A-Za-z0-9_-]{8,}`),
	lazyregexp.New(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*`),
	lazyregexp.New(`\$(?:[1-9][a-z]?|g?y|argon2[a-z]*|scrypt)\$[./A-Za-z0-9$=,+-]{8,}`),
	lazyregexp.New(`(?i)(authorization["']?\s*[:=])[^\r\n]+`),
	lazyregexp.New(`(?i)(\b(?:bearer|basic|oauth)\s+)[A-Za-z0-9+/=._~-]{8,}`),
	lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@"']+@`),
	lazyregexp.New(`\b[A-Za-z0-9]{18}:[A-Za-z0-9]{18}:[A-Za-z0-9]{32}\b`), // MAAS
	lazyregexp.New(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	lazyregexp.New(`(?i)(` + word + `["'\\]*\s*(?::|=>|=)\s*)(?:\\*"(?:\\.|[^"\\])*\\*"|'[^']*'|\[redacted\]|[^\s,;&)}\]]+)`),
	lazyregexp.New(`(?i)(--[a-z0-9-]*(?:password|passwd|passphrase|secret|token|credential|key)[a-z0-9-]*\s+)[^\s-]\S*`),
}

// word matches words that precede a secret.
const word = `(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|consumer[_-]?key|session[_-]?key|encryption[_-]?key|psk)[A-Za-z0-9_.-]*`

// names matches the names of JSON members whose value is a secret.
var names = lazyregexp.New(`(?i)` + word + `$`)

// long matches runs long enough to be random text. Base64 contains slashes like paths, so a run
// with slashes must be longer.
var long = []*lazyregexp.Regexp{
	lazyregexp.New(`[A-Za-z0-9_+-]{24,}={0,2}`),
	lazyregexp.New(`[A-Za-z0-9+/]{40,}={0,2}`),
}

// Text returns s without secrets and users, and the number of replacements.
func (r *Redactor) Text(s string) (string, int) {
	count := 0
	for _, v := range r.values {
		if n := strings.Count(s, v); n > 0 {
			s, count = strings.ReplaceAll(s, v, mark), count+n
		}
	}
	for _, form := range forms {
		s = form.ReplaceAllStringFunc(s, func(found string) string {
			kept := ""
			if groups := form.FindStringSubmatch(found); len(groups) > 1 {
				kept = groups[1]
			}
			if found == kept+mark { // removed by its value already
				return found
			}
			count++
			return kept + mark
		})
	}
	for _, run := range long {
		s = run.ReplaceAllStringFunc(s, func(found string) string {
			if !mixed(found) {
				return found
			}
			count++
			return mark
		})
	}
	if r.users != nil {
		// A name may begin where the previous match has ended.
		for range 2 {
			s = r.users.ReplaceAllStringFunc(s, func(found string) string {
				groups := r.users.FindStringSubmatch(found)
				count++
				return groups[1] + r.names[groups[2]] + groups[3]
			})
		}
	}
	return s, count
}

// uuid is the form of a GPU's uuid.
var uuid = lazyregexp.New(`^[A-Z-]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// mixed reports whether text has all three kinds of characters, as random base64 text of this
// length has.
func mixed(s string) bool {
	return !uuid.MatchString(s) && strings.ContainsFunc(s, unicode.IsUpper) && strings.ContainsFunc(s, unicode.IsLower) &&
		strings.ContainsFunc(s, unicode.IsDigit)
}

// Value returns a JSON value (map, list, string and so on) without secrets and users, and the
// number of replacements.
func (r *Redactor) Value(v any) (any, int) {
	switch v := v.(type) {
	case string:
		return r.Text(v)
	case []any:
		count := 0
		for i := range v {
			inner, n := r.Value(v[i])
			v[i], count = inner, count+n
		}
		return v, count
	case map[string]any:
		out, count := make(map[string]any, len(v)), 0
		for name, inner := range v {
			shown, n := r.Text(name)
			count += n
			if text, ok := inner.(string); ok && text != "" && names.MatchString(name) {
				out[shown] = mark
				count++
				continue
			}
			out[shown], n = r.Value(inner)
			count += n
		}
		return out, count
	}
	return v, 0
}

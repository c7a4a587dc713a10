package terminals

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Forms of the values that an operator may send. The node checks the same forms.
var (
	userName    = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,30}$`)
	termName    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$`)
	localeName  = lazyregexp.New(`^(LANG|LANGUAGE|LC_[A-Z]{1,20})$`)
	localeValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}$`)
	fileName    = lazyregexp.New(`^/?[A-Za-z0-9_.+@%=:,-]+(/[A-Za-z0-9_.+@%=:,-]+)*$`)
)

const (
	maxWord    = 4 << 10
	maxWords   = 32 << 10 // bytes of all words
	maxLocales = 16
)

// params returns the operator's part of the task's params. Codes: terminal_user_refused,
// terminal_env_refused, terminal_command_refused.
func (r Request) params() (p taskcatalog.TerminalOpenParams, err error) {
	refuse := func(code, format, what string) (taskcatalog.TerminalOpenParams, error) {
		return taskcatalog.TerminalOpenParams{}, broker.Errorf(broker.Invalid, code, "cannot open a terminal: "+format,
			taskcatalog.Clean(what, 100))
	}
	if r.Username != "" && !userName.MatchString(r.Username) {
		return refuse("terminal_user_refused", "%q is not a user name", r.Username)
	}
	if r.Term != "" && !termName.MatchString(r.Term) {
		return refuse("terminal_env_refused", "%q is not a terminal type", r.Term)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Locale)) {
		if len(r.Locale) > maxLocales || !localeName.MatchString(name) || !localeValue.MatchString(r.Locale[name]) {
			return refuse("terminal_env_refused", "%q is not a locale variable", name+"="+r.Locale[name])
		}
	}
	total := 0
	for _, word := range r.Command {
		if total += len(word); total > maxWords || len(word) > maxWord || strings.ContainsRune(word, 0) || !utf8.ValidString(word) {
			return refuse("terminal_command_refused", "%q is too long, contains a zero byte, or is not text", word)
		}
	}
	if len(r.Command) > 0 && !isFile(r.Command[0]) {
		return refuse("terminal_command_refused", "%q is neither a program name nor an absolute path", r.Command[0])
	}
	return taskcatalog.TerminalOpenParams{
		AllocationID: r.AllocationID, Username: r.Username, Command: r.Command, Term: r.Term,
		Locale: r.Locale,
	}, nil
}

// limits returns the limits of a session. A session with a command has no idle limit, because a
// command may run without input; the limit on the session's total time still ends it.
func (r Request) limits(p broker.TerminalPolicy) broker.TerminalLimits {
	l := p.Limits()
	if len(r.Command) > 0 {
		l.Idle = 0
	}
	return l
}

// isFile reports whether a program is named by a plain name, or by a path without detours.
func isFile(name string) bool {
	if len(name) > 255 || !fileName.MatchString(name) || strings.HasPrefix(name, "-") {
		return false
	}
	if !strings.HasPrefix(name, "/") {
		return !strings.Contains(name, "/") && strings.Trim(name, ".") != ""
	}
	return !strings.Contains(name+"/", "/../") && !strings.Contains(name+"/", "/./")
}

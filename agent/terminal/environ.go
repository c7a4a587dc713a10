package terminal

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// searchPath are the folders searched for a command.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// The operator's side may set these about its terminal. A value cannot be a path, because libraries
// would open the file.
var (
	termName    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$`)
	localeName  = lazyregexp.New(`^(LANG|LANGUAGE|LC_[A-Z]{1,20})$`)
	localeValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}$`)
)

// environ returns the whole environment of the program: nothing is inherited. Codes:
// terminal_env_refused.
func environ(u machine.User, term string, locale map[string]string) ([]string, error) {
	if term == "" {
		term = "xterm"
	}
	if !termName.MatchString(term) {
		return nil, taskcatalog.Errorf(CodeEnvRefused, "cannot open a terminal: %q is not a terminal type", taskcatalog.Clean(term, 64))
	}
	env := []string{
		"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell,
		"PATH=" + strings.Join(searchPath, ":"), "TERM=" + term,
	}
	for _, name := range slices.Sorted(maps.Keys(locale)) {
		if !localeName.MatchString(name) || !localeValue.MatchString(locale[name]) {
			return nil, taskcatalog.Errorf(CodeEnvRefused, "cannot open a terminal: %q is not a locale variable",
				taskcatalog.Clean(name, 64))
		}
		env = append(env, name+"="+locale[name])
	}
	return env, nil
}

// argv returns the program and its arguments: the login shell, or a command as it is, without a
// shell. Errors do not contain the command's words, so that no log has them. Codes:
// terminal_command_refused.
func argv(m *machine.Machine, shell string, command []string) (file string, args []string, err error) {
	if len(command) == 0 {
		return shell, []string{"-" + path.Base(shell)}, nil // the dash makes it a login shell
	}
	for _, arg := range command {
		if strings.ContainsRune(arg, 0) {
			return "", nil, taskcatalog.Errorf(CodeCommandRefused, "cannot run a command: one of its words has a zero byte")
		}
	}
	file = command[0]
	switch {
	case plainPath(file):
		return file, command, nil
	case file == "" || file == "." || file == ".." || strings.Contains(file, "/") || taskcatalog.Clean(file, 255) != file:
		return "", nil, taskcatalog.Errorf(CodeCommandRefused, "cannot run the command: its program is neither a name nor an absolute path")
	}
	for _, dir := range searchPath {
		if _, err := m.Lstat(path.Join(dir, file)); err == nil {
			return path.Join(dir, file), command, nil
		}
	}
	return "", nil, taskcatalog.Errorf(CodeCommandRefused, "cannot run the command: the program is not found in %s",
		strings.Join(searchPath, ", "))
}

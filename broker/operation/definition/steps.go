package definition

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Bounds of literals, in bytes.
const (
	maxText     = 1024
	maxTemplate = 64 << 10
	maxTexts    = 256
)

// PackagePattern is the pattern of a package with its version, as an input gives it.
// For apt a '-' or '+' at the end is no part of the version but an order.
const PackagePattern = `^[a-z0-9][a-z0-9.+-]+=[0-9A-Za-z.+:~-]*[0-9A-Za-z.~]$`

var (
	digest   = regexp.MustCompile(DigestPattern)
	plainDir = regexp.MustCompile(`^(/[A-Za-z0-9._+-]+)+$`)
	plainRel = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*$`)
	pinned   = regexp.MustCompile(PackagePattern)
	unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer)$`)
	// noUnit are units that end the machine, open a way in, or are Hostler's or systemd's own.
	noUnit  = regexp.MustCompile(`^(hostler|systemd-|dbus|debug-shell|emergency|rescue|getty|serial-getty|console-getty|user@|user-|ssh|initrd|kexec|polkit)`)
	account = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
)

// patterns are those by which an input has a type.
var patterns = map[taskcatalog.StepType]string{taskcatalog.StepDigest: DigestPattern, taskcatalog.StepPackages: PackagePattern}

// writableTrees are the directories below which steps write.
var writableTrees = []string{"/etc", "/opt", "/srv", "/usr/local/share", "/var/cache", "/var/lib"}

// neverBelow are beginnings of paths: languages have a directory each version.
var neverBelow = []string{"/etc/python", "/etc/perl", "/usr/local/share/perl", "/usr/local/share/ca-certificates"}

// notWritable are directories below writableTrees in which no step writes: files there are run or loaded, or
// they decide who may do what. A file of a template would be a program otherwise. Hostler's own are among
// them.
var notWritable = []string{
	"/etc/alternatives", "/etc/apparmor.d", "/etc/apt", "/etc/bash_completion.d", "/etc/binfmt.d", "/etc/ca-certificates", "/etc/cloud", "/etc/cron.d", "/etc/cron.daily",
	"/etc/cron.hourly", "/etc/cron.monthly", "/etc/cron.weekly", "/etc/cron.yearly", "/etc/dbus-1", "/etc/default", "/etc/dhcp", "/etc/dpkg",
	"/etc/grub.d", "/etc/hostler", "/etc/hostler-agent", "/etc/init.d", "/etc/initramfs-tools", "/etc/kernel", "/etc/ld.so.conf.d",
	"/etc/NetworkManager", "/etc/logrotate.d", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/needrestart", "/etc/network",
	"/etc/networkd-dispatcher", "/etc/pam.d", "/etc/polkit-1", "/etc/ppp", "/etc/profile.d",
	"/etc/rc0.d", "/etc/rc1.d", "/etc/rc2.d", "/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d", "/etc/rc6.d", "/etc/rcS.d", "/etc/rsyslog.d",
	"/etc/security", "/etc/skel", "/etc/ssh", "/etc/ssl", "/etc/sssd", "/etc/sudoers.d", "/etc/sysctl.d", "/etc/systemd", "/etc/tmpfiles.d", "/etc/udev",
	"/etc/update-motd.d", "/etc/xdg", "/opt/hostler", "/var/lib/cloud", "/var/lib/dkms", "/var/lib/dpkg", "/var/lib/extrausers", "/var/lib/hostler", "/var/lib/hostler-agent",
	"/var/lib/polkit-1", "/var/lib/systemd",
}

func at(list string, i int) string { return fmt.Sprintf("%s/%d", list, i) }

func (c *checker) step(i int) {
	s, part := c.d.Steps[i], at("/steps", i)
	if slices.ContainsFunc(c.d.Steps[:i], func(b Step) bool { return b.ID == s.ID }) {
		c.Refuse(part+"/id", profiles.CodeDuplicate, "there are two steps %s", profiles.Quote(s.ID))
	}
	kind, known := taskcatalog.StepKindOf(s.Kind)
	if !known {
		var names []string
		for _, k := range taskcatalog.StepKinds() {
			names = append(names, k.Name)
		}
		c.Refuse(part+"/kind", CodeUnknownKind, "%s is no kind of a step (%s)", profiles.Quote(s.Kind), strings.Join(names, ", "))
		return
	}
	for _, a := range kind.Args {
		if _, given := s.With[a.Name]; a.Required && !given {
			c.Refuse(part, CodeMissingArgument, "step %s lacks %s: %s", profiles.Quote(s.ID), a.Name, a.Summary)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		v, part := s.With[name], part+"/with/"+name
		a, known := kind.Arg(name)
		if !known {
			c.Refuse(part, CodeUnknownArgument, "%s has no argument %s", s.Kind, profiles.Quote(name))
			continue
		}
		c.argument(part, i, a, v)
	}
	if kind.Artifact {
		c.source(part, s)
	}
	if s.Kind == "credential.mint" {
		c.scope(part, s)
	}
	if s.Kind == "command.exec_allowlisted" {
		c.command(part, i, s)
	}
	if s.Kind == "file.render" {
		c.template(part, s)
	}
}

// argument checks that a value fits the argument of step i.
func (c *checker) argument(part string, i int, a taskcatalog.StepArg, v Value) {
	switch {
	case v.From != "" && a.Fixed:
		c.Refuse(part, CodeFixedArgument, "the definition itself must give %s: no input and no step may", a.Name)
	case v.From != "":
		if a.Required {
			c.given(part, v.From)
		}
		c.bound(part, i, a, v.From)
	case a.Type == taskcatalog.StepTable && v.Table != nil:
		for _, name := range slices.Sorted(maps.Keys(v.Table)) {
			c.cell(part+"/"+name, i, name, v.Table[name])
		}
	default:
		if what := literalFault(a, v); what != "" {
			code := CodeWrongValue
			if a.Type == taskcatalog.StepPackages || a.Type == taskcatalog.StepDigest {
				code = CodeNotPinned
			}
			c.Refuse(part, code, "%s %s", a.Name, what)
		}
	}
}

// cell checks one value of a table.
func (c *checker) cell(part string, i int, name string, v Value) {
	switch {
	case !inputName.MatchString(name):
		c.Refuse(part, profiles.CodeBadName, "%s is no name (a-z, 0-9, '_', 32 at most)", profiles.Quote(name))
	case v.Table != nil:
		c.Refuse(part, CodeWrongValue, "a table holds no table")
	case v.From != "":
		if got, ok := c.origin(part, i, v.From); ok && got == taskcatalog.StepSecret {
			c.Refuse(part, CodeSecretMisused, "a secret goes into no table")
		}
	default:
		if what := cellFault(v.Literal); what != "" {
			c.Refuse(part, CodeWrongValue, "%s %s", name, what)
		}
	}
}

// given refuses an input that a caller may leave out, where a value is needed.
func (c *checker) given(part, from string) {
	if name, input := strings.CutPrefix(from, "inputs."); input && !slices.Contains(c.d.Inputs.Required, name) {
		c.Refuse(part, CodeOptionalInput, "input %s may be left out, and the step needs it (add it to required)", profiles.Quote(name))
	}
}

// origin resolves where a value comes from: an input, or the output of an earlier step.
func (c *checker) origin(part string, i int, from string) (taskcatalog.StepType, bool) {
	where, name, _ := strings.Cut(from, ".")
	switch where {
	case "inputs":
		p, known := c.d.Inputs.Properties[name]
		if !known {
			c.Refuse(part, CodeUnknownInput, "there is no input %s", profiles.Quote(name))
			return "", false
		}
		c.usedInputs[name] = true
		return p.typeOf(), true
	case "steps":
		j := slices.IndexFunc(c.d.Steps[:i], func(s Step) bool { return s.ID == name })
		if j < 0 {
			c.Refuse(part, CodeUnknownStepID, "there is no step %s before this one", profiles.Quote(name))
			return "", false
		}
		c.usedSteps[name] = true
		kind, _ := taskcatalog.StepKindOf(c.d.Steps[j].Kind)
		if kind.Output == "" {
			c.Refuse(part, CodeNoOutput, "step %s (%s) gives nothing", profiles.Quote(name), kind.Name)
			return "", false
		}
		return kind.Output, true
	}
	c.Refuse(part, CodeWrongValue, "%s is no place that a value comes from (inputs.NAME, steps.ID)", profiles.Quote(from))
	return "", false
}

// bound checks that what a value comes from fits the argument.
func (c *checker) bound(part string, i int, a taskcatalog.StepArg, from string) {
	got, ok := c.origin(part, i, from)
	if !ok {
		return
	}
	_, name, _ := strings.Cut(from, ".")
	if a.Type == taskcatalog.StepSecret || got == taskcatalog.StepSecret {
		c.secret(part, i, a, got, name)
		return
	}
	digestAsText := got == taskcatalog.StepDigest && a.Type == taskcatalog.StepText
	textAsName := got == taskcatalog.StepText && a.Type == taskcatalog.StepName // its form is checked with the plan
	if got != a.Type && !digestAsText && !textAsName {
		why := ""
		if pattern, ok := patterns[a.Type]; ok {
			why = " (give the input, or its items, the pattern " + pattern + ")"
		}
		c.Refuse(part, profiles.CodeWrongType, "%s is of type %s, and %s gives %s%s", a.Name, a.Type, from, got, why)
		return
	}
	if p, input := c.d.Inputs.Properties[name]; input && strings.HasPrefix(from, "inputs.") && len(a.Values) > 0 {
		if p.Enum == nil || slices.ContainsFunc(p.Enum, func(v string) bool { return !slices.Contains(a.Values, v) }) {
			c.Refuse(part, CodeWrongValue, "input %s needs an enum of values that %s has (%s)",
				profiles.Quote(name), a.Name, strings.Join(a.Values, ", "))
		}
	}
}

// secret checks that a credential goes into an argument for its type, and nowhere else.
func (c *checker) secret(part string, i int, a taskcatalog.StepArg, got taskcatalog.StepType, name string) {
	if a.Type != taskcatalog.StepSecret || got != taskcatalog.StepSecret {
		c.Refuse(part, CodeSecretMisused, "%s: a secret comes from a step credential.mint, and goes only into an argument for secrets", a.Name)
		return
	}
	j := slices.IndexFunc(c.d.Steps[:i], func(s Step) bool { return s.ID == name })
	if of, _ := c.d.Steps[j].With["type"].Literal.(string); !slices.Contains(a.Values, of) {
		c.Refuse(part, CodeSecretMisused, "%s takes %s, and step %s mints %s", a.Name, strings.Join(a.Values, " or "), profiles.Quote(name), profiles.Quote(of))
	}
}

// literalFault says why a literal does not fit an argument; empty: it fits.
func literalFault(a taskcatalog.StepArg, v Value) string {
	text, isText := v.Literal.(string)
	switch a.Type {
	case taskcatalog.StepTable:
		return "is a table of names with values"
	case taskcatalog.StepSecret, taskcatalog.StepPath:
		return "comes from an earlier step (from: steps.ID)"
	case taskcatalog.StepInteger:
		if n, ok := v.Literal.(int64); !ok || n < 0 || n > maxNumber {
			return "is a whole number from 0 to 2^53-1"
		}
		return ""
	case taskcatalog.StepBoolean:
		if _, ok := v.Literal.(bool); !ok {
			return "is true or false"
		}
		return ""
	case taskcatalog.StepTexts, taskcatalog.StepPackages:
		return textsFault(a.Type, v.Literal)
	}
	if !isText {
		return "is a text"
	}
	return textFault(a, text)
}

func textFault(a taskcatalog.StepArg, text string) string {
	multiline := a.Type == taskcatalog.StepTemplate
	switch {
	case len(a.Values) > 0 && !slices.Contains(a.Values, text):
		return "is one of " + strings.Join(a.Values, ", ")
	case a.Type == taskcatalog.StepDigest && !digest.MatchString(text):
		return "is sha256: and 64 hexadecimal digits"
	case a.Type == taskcatalog.StepRoot && !writable(text):
		return "is an absolute path without . and .., below " + strings.Join(writableTrees, ", ") + ", outside directories whose files are run, loaded or decide who may do what"
	case a.Type == taskcatalog.StepName && (!plainRel.MatchString(text) || len(text) > 255):
		return "is a relative path; no part of it begins with a dot"
	case a.Type == taskcatalog.StepUnit && (!unitName.MatchString(text) || noUnit.MatchString(text)):
		return "is the full name of a service, socket or timer, such as slurmd.service, and none of the machine's own"
	case a.Type == taskcatalog.StepAccount && !account.MatchString(text):
		return "is an account"
	case !multiline:
		return plainFault(text)
	case text == "" || len(text) > maxTemplate:
		return fmt.Sprintf("has 1 to %d bytes", maxTemplate)
	}
	return ""
}

func textsFault(of taskcatalog.StepType, literal any) string {
	all, ok := literal.([]string)
	if !ok || len(all) == 0 || len(all) > maxTexts {
		return fmt.Sprintf("is a list of 1 to %d texts", maxTexts)
	}
	for _, one := range all {
		if of == taskcatalog.StepPackages && !pinned.MatchString(one) {
			return "names a package without its version: " + profiles.Quote(one) + " (NAME=VERSION)"
		}
		if what := cellFault(one); what != "" {
			return what
		}
	}
	return ""
}

// cellFault says why a literal is no value of a table or list; empty: it is one.
func cellFault(literal any) string {
	switch v := literal.(type) {
	case bool:
		return ""
	case int64:
		if v < 0 || v > maxNumber {
			return "is no number from 0 to 2^53-1"
		}
		return ""
	case string:
		return plainFault(v)
	case []string:
		for _, one := range v {
			if what := cellFault(one); what != "" {
				return what
			}
		}
		return ""
	}
	return "is a text, a number, true or false, or a list of texts"
}

// plainFault says why a text is none that may become an argument or a line; empty: it is one.
func plainFault(text string) string {
	if text == "" || text[0] == '-' || len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Sprintf("has 1 to %d bytes, no control character, and no '-' at its beginning", maxText)
	}
	return ""
}

func writable(dir string) bool {
	below := func(tree string) bool { return strings.HasPrefix(dir, tree+"/") }
	return plainDir.MatchString(dir) && path.Clean(dir) == dir && len(dir) <= 255 && slices.ContainsFunc(writableTrees, below) &&
		!slices.ContainsFunc(neverBelow, func(no string) bool { return strings.HasPrefix(dir, no) }) &&
		!slices.ContainsFunc(notWritable, func(no string) bool { return dir == no || below(no) })
}

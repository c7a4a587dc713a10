package steps

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// CodeLockRefused is the code of a lock file that says anything but packages with versions and hashes.
const CodeLockRefused taskcatalog.Code = "lock_refused"

// Bounds of a lock file.
const (
	maxLock        = 4 << 20
	maxLockEntries = 1000
	maxLockHashes  = 256 // of one package
)

// lockEntry is a package of a lock file.
type lockEntry struct {
	name, extras, version string
	// marker is the condition under which pip takes the package; empty: always.
	marker string
	hashes []string // sha256:…, sha384:… or sha512:…
}

var (
	// NAME[EXTRAS]==VERSION
	lockName = lazyregexp.New(
		`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)((?:\[[A-Za-z0-9._,-]+\])?)==([0-9A-Za-z][0-9A-Za-z.!+_-]*)$`)
	lockMarker  = lazyregexp.New(`^[A-Za-z0-9_.,<>=!~'"() +*-]+$`)
	lockHash    = lazyregexp.New(`^(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$`)
	lockComment = lazyregexp.New(`(^|\s)#.*$`)
	lockRuns    = lazyregexp.New(`[-_.]+`)
)

// parseLock reads a lock file as pip-compile, uv and poetry write it: NAME==VERSION, a condition
// behind ';' if there is one, and hashes. Anything else is refused: an option, a URL, a path, a
// package without hash or with a range of versions. pip never reads the file itself.
func parseLock(raw []byte) ([]lockEntry, error) {
	var all []lockEntry
	named := map[string]lockEntry{}
	for _, line := range lockLines(string(raw)) {
		e, why := parseLockLine(line.text)
		before, twice := named[e.normal()]
		switch {
		case why != "":
		case len(all) == maxLockEntries:
			return nil, taskcatalog.Errorf(CodeLockRefused, "the lock file has more than %d packages", maxLockEntries)
		case twice && (before.marker == "" || e.marker == ""):
			why = "the package is there twice"
		}
		if why != "" {
			return nil, taskcatalog.Errorf(CodeLockRefused, "line %d of the lock file: %s: %q", line.number, why, taskcatalog.Clean(line.text, 80))
		}
		named[e.normal()] = e
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, taskcatalog.Errorf(CodeLockRefused, "the lock file names no package")
	}
	return all, nil
}

type lockLine struct {
	number int
	text   string
}

// lockLines joins lines that end with a backslash, and leaves comments and empty lines out.
func lockLines(text string) []lockLine {
	var all []lockLine
	var open strings.Builder
	began := 0
	end := func() {
		if joined := strings.TrimSpace(open.String()); joined != "" {
			all = append(all, lockLine{began, joined})
		}
		open.Reset()
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if open.Len() == 0 {
			began = number
		}
		bare, goesOn := strings.CutSuffix(lockComment.ReplaceAllString(line, ""), `\`)
		open.WriteString(bare + " ")
		if !goesOn {
			end()
		}
	}
	end()
	return all
}

func parseLockLine(text string) (e lockEntry, why string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && r < ' ' || r > '~' }) {
		return e, "a character that no lock file has"
	}
	words := strings.Fields(text)
	first := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
	if first == 0 {
		return e, "an option (the plan says where packages come from)"
	}
	if first < 0 {
		return e, "no hash (--hash=sha256:…)"
	}
	requirement, marker, conditional := strings.Cut(strings.Join(words[:first], " "), ";")
	m := lockName.FindStringSubmatch(strings.TrimSpace(requirement))
	if m == nil {
		return e, "not NAME==VERSION"
	}
	e = lockEntry{name: m[1], extras: m[2], version: m[3], marker: strings.TrimSpace(marker)}
	if conditional && !lockMarker.MatchString(e.marker) {
		return e, "a condition that is not understood"
	}
	for _, word := range words[first:] {
		hash, ok := strings.CutPrefix(word, "--hash=")
		if !ok || !lockHash.MatchString(hash) {
			return e, "an option beside --hash=sha256:…"
		}
		e.hashes = append(e.hashes, hash)
	}
	if len(e.hashes) > maxLockHashes {
		return e, "too many hashes"
	}
	return e, ""
}

// normal is the name by which an index and an environment know the package.
func (e lockEntry) normal() string { return normalName(e.name) }

func normalName(name string) string { return strings.ToLower(lockRuns.ReplaceAllString(name, "-")) }

// line is the entry as pip reads it.
func (e lockEntry) line() string {
	text := e.name + e.extras + "==" + e.version
	if e.marker != "" {
		text += " ; " + e.marker
	}
	for _, hash := range e.hashes {
		text += " --hash=" + hash
	}
	return text + "\n"
}

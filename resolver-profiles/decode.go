package profiles

import (
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var placeForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[0-9]{1,6}$`)

// Decode reads a set from the JSON of Encode, with the same checks as Parse. Problems name the file
// and line from which the set was once read.
func Decode(raw []byte) (*Set, Problems) {
	var found Problems
	if len(raw) > MaxSize {
		found.add(place{}, CodeTooLarge, "the set is %d bytes; %d are taken", len(raw), MaxSize)
		return nil, found
	}
	set := &Set{}
	if err := taskcatalog.DecodeStrict(raw, set); err != nil {
		found.add(place{}, taskcatalog.CodeMalformed, "the set is not its JSON: %v", err)
		return nil, found
	}
	where := places{}
	locate := func(part, at string) {
		if at == "" {
			return
		}
		if !placeForm.MatchString(at) {
			found.add(place{}, CodeBadName, "%s is no file and line", quote(at))
			return
		}
		file, line := SplitPlace(at)
		where[part] = place{file, line}
	}
	for i, h := range set.HardwareProfiles {
		part := "hardware_profiles/" + strconv.Itoa(i)
		locate(part, h.At)
		if h.Match == nil || h.Overrides == nil {
			found.add(where.of("%s", part), CodeMissingKey, "match or overrides is missing")
		}
	}
	for i, c := range set.CommandProfiles {
		locate("command_profiles/"+strconv.Itoa(i), c.At)
	}
	found = append(found, check(set, where)...)
	for i, h := range set.HardwareProfiles {
		if h.fallback() && i != len(set.HardwareProfiles)-1 {
			found.add(where.of("hardware_profiles/%d", i), CodeFallbackNotLast, "the fallback is not the last rule")
		}
	}
	if len(found) > 0 {
		return nil, found.sorted()
	}
	return set, nil
}

// DecodeCommand reads one command profile from its JSON, with the checks that a profile of a set gets.
func DecodeCommand(raw []byte) (*CommandProfile, Problems) {
	var found Problems
	if len(raw) > MaxSize {
		found.add(place{}, CodeTooLarge, "the command profile is %d bytes; %d are taken", len(raw), MaxSize)
		return nil, found
	}
	p := &CommandProfile{}
	if err := taskcatalog.DecodeStrict(raw, p); err != nil {
		found.add(place{}, taskcatalog.CodeMalformed, "the command profile is not its JSON: %v", err)
		return nil, found
	}
	c := &checker{where: places{}}
	if c.command("", p); len(c.found) > 0 {
		return nil, c.found.sorted()
	}
	return p, nil
}

// SplitPlace splits the place of a rule or a command profile: nvidia.yaml:12.
func SplitPlace(at string) (file string, line int) {
	file, number, _ := strings.Cut(at, ":")
	line, _ = strconv.Atoi(number)
	return file, line
}

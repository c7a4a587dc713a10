package tasks

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// renderHWSync renders the files from a machine's token. Code maas_machine_token_invalid; no error
// holds a part of the token.
func renderHWSync(secret []byte, minutes int) (hwsync.Files, error) {
	var token taskcatalog.MAASMachineToken
	if taskcatalog.DecodeStrict(secret, &token) != nil {
		return hwsync.Files{}, taskcatalog.Errorf(taskcatalog.CodeMAASTokenInvalid,
			"cannot use the machine's MAAS token: not a JSON object of endpoint, consumer_key, token_key and token_secret (store the token again at the broker)")
	}
	return hwsync.Render(token, minutes)
}

// settings are the settings of MAAS's own units, by section and key, each with its permitted
// values. Any other setting could run another program, or run a program elsewhere: a unit with an
// unknown setting does not count as MAAS's.
type settings map[string]*lazyregexp.Regexp

var (
	anyText  = lazyregexp.New(`^.*$`)
	anyTime  = lazyregexp.New(`^[A-Za-z0-9 *:/.,~-]*$`)
	yesOrNo  = lazyregexp.New(`^(yes|no|true|false|on|off|1|0)$`)
	networks = lazyregexp.New(`^(network(-online)?\.target ?)*$`)
	targets  = lazyregexp.New(`^(multi-user|timers)\.target$`)
	fetches  = lazyregexp.New(`^/usr/bin/wget( -q| --quiet| -nv| --no-verbose)* -O /usr/bin/maas-run-scripts( -q| --quiet)* (https?://[A-Za-z0-9.:\[\]-]+)/MAAS/maas-run-scripts$`)
	grants   = lazyregexp.New(`^/(usr/)?bin/chmod (0?755|\+x) /usr/bin/maas-run-scripts$`)

	describes = settings{
		"Unit/Description": anyText, "Unit/Documentation": anyText, "Unit/Wants": networks, "Unit/After": networks,
		"Install/WantedBy": targets,
	}
	runsOnce  = settings{"Service/Type": lazyregexp.New(`^oneshot$`)}
	runsOften = settings{
		"Timer/OnCalendar": anyTime, "Timer/OnBootSec": anyTime, "Timer/OnStartupSec": anyTime, "Timer/OnActiveSec": anyTime,
		"Timer/OnUnitActiveSec": anyTime, "Timer/OnUnitInactiveSec": anyTime, "Timer/AccuracySec": anyTime,
		"Timer/RandomizedDelaySec": anyTime,
		"Timer/Persistent":         yesOrNo, "Timer/Unit": lazyregexp.New("^" + regexp.QuoteMeta(hwSyncService) + "$"),
	}
)

// isMAASsService reports whether a unit file does exactly what MAAS's own unit does. MAAS's text
// differs from ours, and a tenant's text may look like MAAS's. The fetch must go to rack, the rack
// of the credentials.
func isMAASsService(unit []byte, rack string) bool {
	var done []string
	known := eachSetting(unit, func(setting, value string) bool {
		switch fetch := fetches.FindStringSubmatch(value); {
		case setting == "Service/ExecStartPre" && fetch != nil && fetch[len(fetch)-1] == rack:
			done = append(done, "fetch")
		case setting == "Service/ExecStartPre" && grants.MatchString(value):
			done = append(done, "grant")
		case setting == "Service/ExecStart" && value == "/usr/bin/maas-run-scripts report-results --config "+hwSyncCredentials:
			done = append(done, "run")
		default:
			return describes.allows(setting, value) || runsOnce.allows(setting, value)
		}
		return true
	})
	return known && slices.Equal(done, []string{"fetch", "grant", "run"})
}

// isMAASsTimer reports whether a unit file only starts the service at some interval.
func isMAASsTimer(unit []byte) bool {
	starts := false
	known := eachSetting(unit, func(setting, value string) bool {
		starts = starts || strings.HasPrefix(setting, "Timer/On") && value != ""
		return describes.allows(setting, value) || runsOften.allows(setting, value)
	})
	return known && starts
}

func (s settings) allows(setting, value string) bool {
	return s[setting] != nil && s[setting].MatchString(value)
}

// eachSetting calls good with each setting of a unit file until good returns false. A line that is
// no setting, that continues on the next line, or that is not plain ASCII (and so may read as
// another) is not accepted either.
func eachSetting(unit []byte, good func(setting, value string) bool) bool {
	section := ""
	for line := range strings.Lines(string(unit)) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r > '~' }) {
			return false
		}
		line = strings.TrimSpace(line)
		key, value, is := strings.Cut(line, "=")
		switch {
		case strings.HasSuffix(line, `\`):
			return false
		case line == "", line[0] == '#', line[0] == ';':
		case line[0] == '[' && line[len(line)-1] == ']':
			section = line[1 : len(line)-1]
		case !is || !good(section+"/"+strings.TrimSpace(key), strings.Join(strings.Fields(value), " ")):
			return false
		}
	}
	return true
}

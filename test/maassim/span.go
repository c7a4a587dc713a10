package maassim

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// units are the units that a systemd time span in a setting may use.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute, "": time.Second,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
	"days": 24 * time.Hour,
}

// span parses a systemd time span such as 15m or 1h 30m; 0 if s is not a time span.
func span(s string) time.Duration {
	total := time.Duration(0)
	for rest := strings.ReplaceAll(s, " ", ""); rest != ""; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsDigit(r) })
		if digits < 0 {
			digits = len(rest)
		}
		n, err := strconv.Atoi(rest[:digits])
		rest = rest[digits:]
		letters := strings.IndexFunc(rest, unicode.IsDigit)
		if letters < 0 {
			letters = len(rest)
		}
		unit, known := units[rest[:letters]]
		if err != nil || !known {
			return 0
		}
		total, rest = total+time.Duration(n)*unit, rest[letters:]
	}
	return total
}

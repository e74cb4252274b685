package timeparse

import (
	"fmt"
	"strconv"
	"strings"
)

// formHint says how to write what a text that is not a time may mean, "" if that is unknown.
func formHint(text string) string {
	switch strings.ToLower(text) {
	case "today":
		return "write its date, e.g. 2026-11-21"
	case "yesterday":
		return "write its date, e.g. 2026-11-21, or now-1d for 24 hours ago"
	case "tomorrow":
		return "write its date, e.g. 2026-11-21, or now+1d for 24 hours from now"
	}
	date, clock, hasClock := strings.Cut(strings.Replace(text, " ", "T", 1), "T")
	if strings.Count(date, ".") == 2 || strings.Count(date, "/") == 2 {
		return "write year, month and day, e.g. 2026-11-21"
	}
	if hint := dateHint(date); hint != "" {
		return hint
	}
	if _, err := strconv.ParseUint(clock, 10, 8); hasClock && err == nil {
		return fmt.Sprintf("write hours and minutes, e.g. %s %02.2s:00", date, clock)
	}
	return ""
}

// dateHint says which month or day of YEAR-MONTH or YEAR-MONTH-DAY does not exist.
func dateHint(date string) string {
	var numbers [3]int
	parts := strings.Split(date, "-")
	if len(parts) < 2 || len(parts) > len(numbers) || len(parts[0]) != 4 {
		return ""
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return ""
		}
		numbers[i] = int(n)
	}
	year, month, day := numbers[0], numbers[1], numbers[2]
	switch {
	case month < 1 || month > 12:
		return fmt.Sprintf("there is no month %d", month)
	case len(parts) == 3 && (day < 1 || day > monthDays(year, month)):
		return fmt.Sprintf("%d-%02d has %d days", year, month, monthDays(year, month))
	case len(parts[1]) != 2 || len(parts) == 3 && len(parts[2]) != 2:
		return "write month and day with two digits, e.g. 2026-01-05"
	}
	return ""
}

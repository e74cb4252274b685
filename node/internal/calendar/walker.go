package calendar

// walker finds windows and remembers the offset period and the day of the last one.
type walker struct {
	*Calendar
	near   offsetPeriod
	day    int64 // the number of today
	today  int64 // its first second
	nextAt int64 // the first second of the day after; 0, as today, before the first use
}

func (w *walker) at(second int64) offsetPeriod {
	if second < w.near.from || second >= w.near.to {
		w.near = w.offsetPeriodAt(second)
	}
	return w.near
}

// window returns the window that holds ns.
func (w *walker) window(ns int64) (fromNs, afterNs int64) {
	second := floor(ns, secondNs)
	w.moveTo(second)
	if step := w.step(); step > 0 {
		return toNs(w.before(second, step)), toNs(w.after(second, step))
	}
	first, next := w.firstDay(w.day)
	return toNs(w.dayStart(first)), toNs(w.dayStart(next))
}

// moveTo makes today the day that holds a second: the latest whose first second is not after it.
// The clock may show an earlier date, when it was set back over midnight.
func (w *walker) moveTo(second int64) {
	if w.today <= second && second < w.nextAt {
		return
	}
	w.day = floor(second+w.at(second).offset, daySeconds)
	w.today, w.nextAt = w.dayStart(w.day), w.dayStart(w.day+1)
	for w.nextAt <= second {
		w.day++
		w.today, w.nextAt = w.nextAt, w.dayStart(w.day+1)
	}
}

// dayStart returns the first second at which the clock shows a day or a later one.
func (w *walker) dayStart(day int64) int64 {
	midnight := day * daySeconds
	second := midnight - 2*daySeconds // before it anywhere: no zone is so far ahead
	for {
		s := w.at(second)
		if second = max(second, midnight-s.offset); second < s.to {
			return second
		}
		second = s.to
	}
}

// before returns the last start of a window of some seconds that is not after a second of today.
func (w *walker) before(second, step int64) int64 {
	for {
		s := w.at(second)
		wall := second + s.offset
		start := second - mod(mod(wall, daySeconds), step)
		if start >= s.from {
			return max(start, w.today)
		}
		if s.from <= w.today || w.cuts(s.from, step) {
			return max(s.from, w.today)
		}
		second = s.from - 1
	}
}

// after returns the first start of a window behind a second of today.
func (w *walker) after(second, step int64) int64 {
	for {
		s := w.at(second)
		past := mod(second+s.offset, daySeconds)
		next := second - past + min(past-past%step+step, daySeconds)
		if next <= s.to {
			return min(next, w.nextAt)
		}
		if s.to >= w.nextAt || w.cuts(s.to, step) {
			return min(s.to, w.nextAt)
		}
		second = s.to
	}
}

// cuts reports whether a window begins where the clock is changed: when it reaches a multiple of
// step then, by the old time or the new, or when it does not stay between the same two.
func (w *walker) cuts(change, step int64) bool {
	old, now := change+w.at(change-1).offset, change+w.at(change).offset
	if mod(old, daySeconds)%step == 0 || mod(now, daySeconds)%step == 0 {
		return true
	}
	return floor(old, daySeconds) != floor(now, daySeconds) ||
		mod(old, daySeconds)/step != mod(now, daySeconds)/step
}

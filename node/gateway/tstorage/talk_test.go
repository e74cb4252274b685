package tstorage

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTalk logs ten lines a second, and then how many were left out.
func TestTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text syncBuffer
		var talk talk
		to := slog.New(slog.NewTextHandler(&text, nil))
		for range 25 {
			talk.log(to, slog.LevelInfo, "hello")
		}
		if n := strings.Count(text.String(), "msg=hello"); n != talkLines {
			t.Errorf("%d lines", n)
		}
		time.Sleep(time.Second)
		talk.log(to, slog.LevelInfo, "again", "a", 1)
		if !strings.Contains(text.String(), "msg=again a=1 left_out=15\n") {
			t.Errorf("logged: %s", text.String())
		}
		time.Sleep(time.Second)
		talk.log(to, slog.LevelInfo, "last")
		if !strings.HasSuffix(text.String(), "msg=last\n") {
			t.Errorf("logged: %s", text.String())
		}
	})
}

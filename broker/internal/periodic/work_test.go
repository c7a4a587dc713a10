package periodic_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/broker/internal/periodic"
)

func TestWorkIsDoneOnceAPeriodUntilItsContextEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		atOnce bool
		want   []time.Duration
	}{
		{"from the first period's end", false, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
		{"from the start", true, []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 35*time.Second)
				defer stop()
				begun := time.Now()
				var turns []time.Duration
				periodic.Work{Every: 10 * time.Second, AtOnce: tt.atOnce, Log: zap.NewNop(), Turn: func(context.Context) error {
					turns = append(turns, time.Since(begun))
					return nil
				}}.Run(ctx)
				if !slices.Equal(turns, tt.want) {
					t.Errorf("turns at %v, want %v", turns, tt.want)
				}
			})
		})
	}
}

func TestAFailedTurnIsLoggedAndTheNextOneComes(t *testing.T) {
	for _, grave := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			core, logged := observer.New(zap.DebugLevel)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			turns := 0
			periodic.Work{Every: time.Minute, Log: zap.New(core), Cannot: "cannot sweep", Grave: grave, Turn: func(context.Context) error {
				if turns++; turns == 3 {
					stop() // what fails from here on fails because the work ends
				}
				return errors.New("the store is away")
			}}.Run(ctx)
			want := zapcore.WarnLevel
			if grave {
				want = zapcore.ErrorLevel
			}
			lines := logged.FilterMessage("cannot sweep").FilterField(zap.Error(errors.New("the store is away"))).All()
			if turns != 3 || logged.Len() != 2 || len(lines) != 2 || lines[0].Level != want {
				t.Errorf("%d turns, logged %v", turns, logged.All())
			}
		})
	}
}

func TestWorkThatIsFinishedTakesNoFurtherTurn(t *testing.T) {
	for _, last := range []int{1, 2} { // the first turn is another branch than the later ones
		synctest.Test(t, func(t *testing.T) {
			core, logged := observer.New(zap.DebugLevel)
			turns := 0
			periodic.Work{Every: time.Minute, AtOnce: true, Log: zap.New(core), Turn: func(context.Context) error {
				if turns++; turns == last {
					return periodic.ErrFinished
				}
				return nil
			}}.Run(t.Context())
			if turns != last || logged.Len() != 0 {
				t.Errorf("%d turns, want %d; logged %v", turns, last, logged.All())
			}
		})
	}
}

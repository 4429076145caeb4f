package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"forewarm/forecast"
)

// flagError adds to an unknown flag the one that may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := forecast.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w (did you mean --%s?)", err, near)
	}
	return fmt.Errorf("%w, must be one of --%s", err, strings.Join(names, ", --"))
}

// noArguments refuses arguments of a verb that reads a series: what stands there is mostly the series itself.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q; a series is named with --series %s", args[0], args[0])
}

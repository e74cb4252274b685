//go:build !linux

package main

func tellSlack() {}

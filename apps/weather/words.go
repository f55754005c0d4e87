package main

// words are the sentences of a report, with verbs for its parts in this order.
type words struct {
	now   string // city, condition, temperature, feels like, humidity, wind
	day   string // date, condition, low, high, chance of rain, amount
	stale string // time
}

func wordsOf(language string) words {
	if language == "zh" {
		return words{
			now:   "%s:现在%s,%s,体感 %s,湿度 %s,风速 %s。",
			day:   "%s:%s,%s~%s,降水概率 %s,降水量 %s。",
			stale: "(天气服务暂时不可用,以上是 %s 的数据)",
		}
	}
	return words{
		now:   "%s: now %s, %s, feels like %s, humidity %s, wind %s.",
		day:   "%s: %s, %s to %s, chance of rain %s, amount %s.",
		stale: "(The weather provider cannot be reached right now; this is from %s.)",
	}
}

// conditions are the WMO weather codes that Open-Meteo uses, in English and Chinese.
var conditions = map[int][2]string{
	0:  {"clear sky", "晴"},
	1:  {"mainly clear", "大部晴朗"},
	2:  {"partly cloudy", "多云"},
	3:  {"overcast", "阴"},
	45: {"fog", "雾"},
	48: {"rime fog", "雾凇"},
	51: {"light drizzle", "小毛毛雨"},
	53: {"drizzle", "毛毛雨"},
	55: {"dense drizzle", "浓毛毛雨"},
	56: {"light freezing drizzle", "轻冻毛毛雨"},
	57: {"freezing drizzle", "冻毛毛雨"},
	61: {"light rain", "小雨"},
	63: {"rain", "中雨"},
	65: {"heavy rain", "大雨"},
	66: {"light freezing rain", "小冻雨"},
	67: {"heavy freezing rain", "大冻雨"},
	71: {"light snow", "小雪"},
	73: {"snow", "中雪"},
	75: {"heavy snow", "大雪"},
	77: {"snow grains", "米雪"},
	80: {"light showers", "小阵雨"},
	81: {"showers", "阵雨"},
	82: {"violent showers", "强阵雨"},
	85: {"light snow showers", "小阵雪"},
	86: {"heavy snow showers", "大阵雪"},
	95: {"thunderstorm", "雷暴"},
	96: {"thunderstorm with light hail", "雷暴伴小冰雹"},
	99: {"thunderstorm with heavy hail", "雷暴伴大冰雹"},
}

// condition is what a WMO weather code means, in Chinese for zh, else in English.
func condition(code int, language string) string {
	texts, ok := conditions[code]
	switch {
	case !ok && language == "zh":
		return "未知天气"
	case !ok:
		return "unknown weather"
	case language == "zh":
		return texts[1]
	}
	return texts[0]
}
